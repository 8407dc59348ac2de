"""The client without I/O, with its input in pieces."""

from __future__ import annotations

from datetime import timedelta

import pytest
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from kio.schema.api_versions.v4.response import ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.request import MetadataRequest
from kio.schema.metadata.v13.response import MetadataResponse
from kio.schema.produce.v13.request import ProduceRequest
from kio.static.primitive import i16, i32Timedelta

from catchment.protocol.client import ClientProtocol
from catchment.protocol.codec import decode_request, encode_response
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.headers import encode_response_header, parse_request_header

NO_WAIT = i32Timedelta.parse(timedelta(0))
ASK = MetadataRequest(topics=None, include_topic_authorized_operations=False)
METADATA = MetadataResponse(throttle_time=NO_WAIT, brokers=(), cluster_id="c", topics=(), error_code=ErrorCode.none)
VERSIONS = ApiVersionsResponse(error_code=ErrorCode.unsupported_version, api_keys=(), throttle_time=NO_WAIT)


def framed(payload: bytes) -> bytes:
    return len(payload).to_bytes(4) + payload


def response(correlation_id: int, version: int = 13) -> bytes:
    return framed(encode_response_header(correlation_id, 3, version) + encode_response(METADATA, version))


def test_a_request_is_a_frame_that_the_broker_can_decode() -> None:
    frame = ClientProtocol("me").request(ASK, 12)
    assert int.from_bytes(frame[:4]) == len(frame) - 4
    header = parse_request_header(frame[4:])
    assert (header.api_key, header.api_version, header.correlation_id, header.client_id) == (3, 12, 0, "me")
    assert decode_request(3, 12, frame[4 + header.body_offset :]) == ASK


def test_responses_are_in_order_for_any_split_of_the_bytes() -> None:
    client = ClientProtocol()
    client.request(ASK, 13)
    client.request(ASK, 9)
    stream = response(0, 13) + response(1, 9)
    responses = [one for byte in stream for one in client.receive(bytes((byte,)))]
    assert [(one.correlation_id, one.api_version) for one in responses] == [(0, 13), (1, 9)]
    assert [one.decode().cluster_id for one in responses] == ["c", "c"]
    assert client.pending == 0


def test_several_responses_in_one_piece() -> None:
    client = ClientProtocol()
    for _ in range(3):
        client.request(ASK, 13)
    assert [one.correlation_id for one in client.receive(memoryview(response(0) + response(1) + response(2)[:5]))] == [
        0,
        1,
    ]
    assert client.pending == 1


def test_an_unsupported_version_is_reported_at_version_0() -> None:
    client = ClientProtocol()
    client.request(ApiVersionsRequest(client_software_name="x", client_software_version="1"), 4)
    payload = encode_response_header(0, 18, 4) + encode_response(VERSIONS, 0)
    (received,) = client.receive(framed(payload))
    assert received.decode().error_code is ErrorCode.unsupported_version


def test_produce_without_acknowledgement_has_no_response() -> None:
    client = ClientProtocol()
    client.request(ProduceRequest(acks=i16(0), timeout=NO_WAIT, topic_data=()), 9)
    assert client.pending == 0
    client.request(ProduceRequest(acks=i16(1), timeout=NO_WAIT, topic_data=()), 9)
    assert client.pending == 1


@pytest.mark.parametrize(
    "stream",
    [
        pytest.param(response(1), id="another correlation id"),
        pytest.param(b"\x00\x00\x00\x02\x00\x00", id="shorter than a header"),
        pytest.param(b"\x00\x00\x04\x01", id="one byte beyond the limit"),
        pytest.param(b"\xff\xff\xff\xff", id="a negative length"),
        pytest.param(response(0) * 2, id="an answer to no request"),
    ],
)
def test_an_invalid_response_is_malformed(stream: bytes) -> None:
    client = ClientProtocol(frame_limit_bytes=1024)
    client.request(ASK, 13)
    with pytest.raises(MalformedRequest):
        client.receive(stream)


def test_a_frame_at_the_limit_is_awaited() -> None:
    client = ClientProtocol(frame_limit_bytes=1024)
    client.request(ASK, 13)
    assert client.receive(b"\x00\x00\x04\x00") == []
