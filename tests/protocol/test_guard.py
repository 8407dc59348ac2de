"""Hostile bytes: decoding returns a message or raises MalformedRequest, and allocates nothing by unchecked counts."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.protocol.messages import KINDS, from_the_future, messages, versions
from tests.protocol.test_codec_round_trip import CODECS, written

from catchment.protocol.adapters.conversion import lift
from catchment.protocol.apis import APIS
from catchment.protocol.budget import REQUEST_ALLOWANCE_BYTES, response_memory
from catchment.protocol.codec import decode_request, decode_response
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.guard import guarded
from catchment.protocol.wire import unsigned_varint

quick = settings(max_examples=15, suppress_health_check=[HealthCheck.too_slow])
every_api = pytest.mark.parametrize("api_key", APIS, ids=lambda key: APIS[key].name)


def written_as(message_class: Any, message: Any) -> bytes:
    return written(lift(message, message_class))


def attempt(kind: str, api_key: int, version: int, wire: bytes) -> Any:
    try:
        return CODECS[kind][0](api_key, version, wire)
    except MalformedRequest:
        return None


@every_api
@quick
@given(data=st.data())
def test_a_message_truncated_at_any_byte_is_malformed(api_key: int, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions(api_key)))
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    wire = written(data.draw(messages(KINDS[kind](api_key, version))))
    for size in range(len(wire)):
        with pytest.raises(MalformedRequest):
            CODECS[kind][0](api_key, version, wire[:size])


@every_api
@quick
@given(data=st.data())
def test_mutated_bytes_decode_or_are_malformed(api_key: int, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions(api_key)))
    kind = data.draw(st.sampled_from(sorted(KINDS)))
    wire = written(data.draw(messages(KINDS[kind](api_key, version))))
    hostile = data.draw(st.sampled_from((b"\xff", b"\x7f", b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff", b"\x80\x80", b"")))
    for position in range(len(wire)):
        attempt(kind, api_key, version, wire[:position] + hostile + wire[position + len(hostile) :])
        attempt(kind, api_key, version, wire[:position] + hostile)


@every_api
@quick
@given(data=st.data(), junk=st.binary(max_size=60))
def test_random_bytes_decode_or_are_malformed(api_key: int, data: st.DataObject, junk: bytes) -> None:
    version = data.draw(st.sampled_from(versions(api_key)))
    attempt("request", api_key, version, junk)
    attempt("response", api_key, version, junk)


@every_api
@quick
@given(data=st.data())
def test_unknown_tagged_fields_are_removed_everywhere(api_key: int, data: st.DataObject) -> None:
    version = data.draw(st.sampled_from(versions(api_key)))
    message_class = KINDS[data.draw(st.sampled_from(sorted(KINDS)))](api_key, version)
    message = data.draw(messages(from_the_future(message_class)))
    assert guarded(message_class, written(message), response_memory(0)) == written_as(message_class, message)


@pytest.mark.parametrize(
    ("version", "wire"),
    [
        pytest.param(12, b"\xff\xff\xff\xff\x0f" + bytes(16), id="4 billion topics, compact"),
        pytest.param(1, b"\x7f\xff\xff\xff" + bytes(17), id="2 billion topics"),
        pytest.param(1, b"\xff\xff\xff\xfe" + bytes(17), id="a negative count"),
        pytest.param(0, b"\xff\xff\xff\xff", id="null where null is not allowed"),
        pytest.param(1, b"\x00\x00\x00\x01\x00\x02\xff\xfe", id="a name that is not UTF-8"),
        pytest.param(1, b"\x00\x00\x00\x01\xff\xff", id="a null name"),
    ],
)
def test_a_hostile_metadata_request_is_malformed(version: int, wire: bytes) -> None:
    with pytest.raises(MalformedRequest):
        decode_request(3, version, wire)


def test_bytes_after_a_message_are_ignored_as_in_kafka() -> None:
    assert decode_request(3, 1, b"\xff\xff\xff\xff" + b"more").topics is None


def test_the_number_of_elements_is_bounded_by_the_bytes_of_the_request() -> None:
    count = REQUEST_ALLOWANCE_BYTES // 30
    wire = unsigned_varint(count + 1) + bytes(count)
    tracemalloc.start()
    with pytest.raises(MalformedRequest, match=f"claims {count} elements"):
        decode_request(74, 1, wire + b"\x00")
    _, peak_bytes = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak_bytes < 3 * count
    allowed = REQUEST_ALLOWANCE_BYTES // 40
    assert len(decode_request(74, 1, unsigned_varint(allowed + 1) + bytes(allowed + 1)).resource_types) == allowed


@pytest.mark.parametrize(
    "tags",
    [
        pytest.param(b"\x01\x01\x09" + bytes(9), id="longer than its value"),
        pytest.param(b"\x01\x01\x07" + bytes(8), id="shorter than its value"),
        pytest.param(b"\x02" + (b"\x01\x08" + bytes(8)) * 2, id="twice"),
        pytest.param(b"\x01\x01\x7f" + bytes(8), id="beyond the message"),
        pytest.param(b"\xff\xff\xff\xff\x0f", id="4 billion of them"),
    ],
)
def test_a_known_tagged_field_occurs_once_and_has_its_size(tags: bytes) -> None:
    body = b"\x00\x00\x01\x00\x00\x00\x00"
    assert decode_response(18, 4, body + b"\x01\x01\x08" + bytes(8)).finalized_features_epoch == 0
    with pytest.raises(MalformedRequest):
        decode_response(18, 4, body + tags)
