"""Request and response headers."""

from __future__ import annotations

from io import BytesIO
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.request_header.v1.header import RequestHeader as RequestHeader1
from kio.schema.request_header.v2.header import RequestHeader as RequestHeader2
from kio.serial import entity_writer
from kio.static.primitive import i16, i32

from catchment.protocol.apis import APIS, is_flexible
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.headers import (
    encode_request_header,
    encode_response_header,
    parse_request_header,
    parse_response_header,
)


def kio_header(key: int, version: int, correlation_id: int, client_id: str | None) -> bytes:
    header_class: Any = RequestHeader2 if is_flexible(key, version) else RequestHeader1
    header = header_class(
        request_api_key=i16(key),
        request_api_version=i16(version),
        correlation_id=i32(correlation_id),
        client_id=client_id,
    )
    buffer = BytesIO()
    entity_writer(header_class)(buffer, header)
    return buffer.getvalue()


@given(st.sampled_from(sorted(APIS)), st.data(), st.integers(-(2**31), 2**31 - 1), st.none() | st.text(max_size=20))
def test_a_header_is_encoded_as_by_kio_and_decoded_again(
    key: int, data: st.DataObject, correlation_id: int, client_id: str | None
) -> None:
    version = data.draw(st.integers(APIS[key].oldest, APIS[key].newest))
    encoded = encode_request_header(key, version, correlation_id, client_id)
    assert encoded == kio_header(key, version, correlation_id, client_id)
    header = parse_request_header(memoryview(encoded + b"body"))
    assert header == (key, version, correlation_id, client_id, len(encoded))


def test_unknown_tagged_fields_of_the_header_are_skipped() -> None:
    plain = encode_request_header(3, 12, 7, "me")
    tagged = plain[:-1] + b"\x02\x00\x03abc\x85\x01\x00" + b"body"
    header = parse_request_header(tagged)
    assert header.client_id == "me"
    assert tagged[header.body_offset :] == b"body"


@pytest.mark.parametrize(("key", "version"), [(18, 99), (3, 500), (999, 0), (-5, -5), (0, 0)])
def test_an_unknown_key_or_version_still_yields_a_header(key: int, version: int) -> None:
    frame = key.to_bytes(2, signed=True) + version.to_bytes(2, signed=True) + b"\x00\x00\x00\x09\x00\x02me" + b"???"
    header = parse_request_header(frame)
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (key, version, 9, "me")


@pytest.mark.parametrize(
    "rest",
    [
        pytest.param(b"\x00\x05me", id="client id beyond the frame"),
        pytest.param(b"\xff\xfeme", id="negative client id"),
        pytest.param(b"\x00\x02\xff\xff\x00", id="client id not UTF-8"),
        pytest.param(b"\xff\xff", id="no tags"),
        pytest.param(b"\xff\xff\xff\xff\xff\xff\x0f\x00", id="huge tag count"),
        pytest.param(b"\xff\xff\x01\x00\x7f", id="tag beyond the frame"),
        pytest.param(b"\xff\xff\xff\xff\xff\xff\xff\xff", id="endless varint"),
    ],
)
def test_a_broken_header_is_malformed(rest: bytes) -> None:
    with pytest.raises(MalformedRequest):
        parse_request_header(b"\x00\x03\x00\x0c\x00\x00\x00\x01" + rest)


@given(st.binary(max_size=30))
def test_any_bytes_are_a_header_or_malformed(frame: bytes) -> None:
    try:
        header = parse_request_header(frame)
    except MalformedRequest:
        return
    assert header.body_offset <= len(frame)


def test_response_headers_are_flexible_with_their_api_but_never_for_api_versions() -> None:
    assert encode_response_header(5, 3, 9) == b"\x00\x00\x00\x05\x00"
    assert encode_response_header(5, 3, 8) == b"\x00\x00\x00\x05"
    assert encode_response_header(5, 18, 4) == b"\x00\x00\x00\x05"


@pytest.mark.parametrize(("key", "version"), [(3, 9), (3, 8), (18, 4)])
def test_a_response_header_is_decoded_again(key: int, version: int) -> None:
    encoded = encode_response_header(-3, key, version)
    assert parse_response_header(encoded + b"body", key, version) == (-3, len(encoded))
