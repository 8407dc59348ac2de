"""Our own Produce codec compared with kio's, at every version."""

import io
from collections.abc import Callable
from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from catchment.protocol import produce
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.produce import PartitionData, PartitionResponse, ProduceRequest, TopicData, TopicResponse

VERSIONS = range(3, 14)
names = st.text(min_size=1, max_size=20)
payloads = st.none() | st.binary(max_size=200)


def _kio(version: int, direction: str) -> Any:
    return import_module(f"kio.schema.produce.v{version}.{direction}")


def _topic(version: int, name: str) -> dict[str, Any]:
    """A topic by its name, or in later versions by an id made of it."""
    return {"name": name} if version < 13 else {"topic_id": UUID(int=sum(name.encode()) + 1)}


requests = st.builds(
    lambda transactional_id, acks, timeout_ms, topics: (transactional_id, acks, timeout_ms, topics),
    st.none() | names,
    st.sampled_from([-1, 0, 1, 7]),
    st.integers(0, 100_000),
    st.lists(st.tuples(names, st.lists(st.tuples(st.integers(0, 1 << 30), payloads), max_size=4)), max_size=4),
)


@pytest.mark.parametrize("version", VERSIONS)
@given(requests)
def test_a_request_that_kio_encoded_decodes_to_the_same(version: int, request: Any) -> None:
    transactional_id, acks, timeout_ms, topics = request
    module = _kio(version, "request")
    message = module.ProduceRequest(
        transactional_id=transactional_id,
        acks=acks,
        timeout=timedelta(milliseconds=timeout_ms),
        topic_data=tuple(
            module.TopicProduceData(
                **_topic(version, name),
                partition_data=tuple(
                    module.PartitionProduceData(index=index, records=records) for index, records in partitions
                ),
            )
            for name, partitions in topics
        ),
    )
    buffer = io.BytesIO(b"head")
    buffer.seek(4)
    entity_writer(module.ProduceRequest)(buffer, message)
    decoded = produce.decode_request(memoryview(buffer.getvalue()), 4, version)
    assert decoded == ProduceRequest(
        transactional_id,
        acks,
        timeout_ms,
        [
            TopicData(
                next(iter(_topic(version, name).values())),
                [PartitionData(index, None if data is None else memoryview(data)) for index, data in partitions],
            )
            for name, partitions in topics
        ],
    )


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_truncated_at_any_byte_is_malformed(version: int) -> None:
    module = _kio(version, "request")
    data = module.PartitionProduceData(index=1, records=b"r" * 9)
    topic = module.TopicProduceData(**_topic(version, "orders"), partition_data=(data,))
    message = module.ProduceRequest(acks=1, timeout=timedelta(seconds=1), topic_data=(topic,), transactional_id="t")
    buffer = io.BytesIO()
    entity_writer(module.ProduceRequest)(buffer, message)
    whole = buffer.getvalue()
    for end in range(len(whole)):
        with pytest.raises(MalformedRequest):
            produce.decode_request(memoryview(whole[:end]), 0, version)


@pytest.mark.parametrize("version", VERSIONS)
@given(st.integers(-1, 1 << 60), st.integers(-1, 1 << 40), st.none() | names)
def test_kio_decodes_the_response(version: int, offset: int, time_ms: int, text: str | None) -> None:
    key = next(iter(_topic(version, "orders").values()))
    failed = PartitionResponse(2, ErrorCode.not_leader_or_follower.value, error_message=text, current_leader=(3, 9))
    topics = [TopicResponse(key, [PartitionResponse(1, 0, offset, time_ms, 5), failed])]
    encoded = produce.encode_response(topics, version, throttle_time_ms=11)
    response, size = entity_reader(_kio(version, "response").ProduceResponse)(encoded, 0)
    assert size == len(encoded)
    assert response.throttle_time == timedelta(milliseconds=11)
    (topic,) = response.responses
    assert (topic.name if version < 13 else topic.topic_id) == key
    good, bad = topic.partition_responses
    assert (good.index, good.error_code, good.base_offset) == (1, ErrorCode.none, offset)
    assert bad.error_code is ErrorCode.not_leader_or_follower
    if version >= 5:
        assert (good.log_start_offset, bad.log_start_offset) == (5, -1)
    if version >= 8:
        assert bad.error_message == text
    if version >= 10:
        assert (bad.current_leader.leader_id, bad.current_leader.leader_epoch) == (3, 9)


@pytest.mark.parametrize("version", range(9, 13))
@given(
    names, st.integers(0, 1 << 30), st.binary(min_size=1, max_size=40_000), st.binary(max_size=3), st.integers(0, 30)
)
def test_the_fast_decoder_never_differs_from_the_general_one(
    version: int, name: str, partition: int, records: bytes, tail: bytes, position: int
) -> None:
    module = _kio(version, "request")
    data = module.PartitionProduceData(index=partition, records=records)
    topic = module.TopicProduceData(name=name, partition_data=(data,))
    message = module.ProduceRequest(acks=-1, timeout=timedelta(seconds=1), topic_data=(topic,))
    buffer = io.BytesIO()
    entity_writer(module.ProduceRequest)(buffer, message)
    whole = bytearray(buffer.getvalue())
    assert produce.decode_request(memoryview(whole), 0, version) == produce.decode_any(memoryview(whole), 0, version)
    # Change bytes near the start and at the end: both decoders must agree.
    whole[position % len(whole)] ^= 1 + len(tail)
    damaged = memoryview(bytes(whole[: len(whole) - len(tail)]) + tail)
    assert _outcome(produce.decode_request, damaged, version) == _outcome(produce.decode_any, damaged, version)


def _outcome(decode: Callable[[memoryview, int, int], ProduceRequest], data: memoryview, version: int) -> object:
    try:
        return decode(data, 0, version)
    except MalformedRequest:
        return MalformedRequest
