"""Our own Fetch codec compared with kio's, at every version."""

import io
from datetime import timedelta
from importlib import import_module
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader, entity_writer

from catchment.protocol import fetch
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.fetch import PartitionRequest, PartitionResponse, TopicResponse

VERSIONS = range(4, 19)
ORDERS = UUID(int=7)


def _kio(version: int, direction: str) -> Any:
    return import_module(f"kio.schema.fetch.v{version}.{direction}")


def _topic(version: int) -> dict[str, Any]:
    return {"topic": "orders"} if version < 13 else {"topic_id": ORDERS}


def _supported(entity: Any, **values: Any) -> Any:
    """A message of a version that has only some of these fields."""
    return entity(**{name: value for name, value in values.items() if name in entity.__dataclass_fields__})


def _request(version: int, partitions: list[PartitionRequest]) -> bytes:
    module = _kio(version, "request")
    extra: dict[str, Any] = {}
    if version >= 15:
        extra["replica_state"] = module.ReplicaState(replica_id=4, replica_epoch=99)
    if version >= 7:
        extra["forgotten_topics_data"] = (module.ForgottenTopic(**_topic(version), partitions=(5, 6)),)
    message = _supported(
        module.FetchRequest,
        replica_id=4,
        max_wait=timedelta(milliseconds=500),
        min_bytes=1,
        max_bytes=1000,
        isolation_level=1,
        session_id=8,
        session_epoch=3,
        rack_id="north",
        topics=(
            module.FetchTopic(
                **_topic(version),
                partitions=tuple(
                    _supported(
                        module.FetchPartition,
                        partition=asked.partition,
                        fetch_offset=asked.fetch_offset,
                        partition_max_bytes=asked.max_bytes,
                        log_start_offset=asked.log_start_offset,
                        current_leader_epoch=asked.current_leader_epoch,
                        last_fetched_epoch=asked.last_fetched_epoch,
                    )
                    for asked in partitions
                ),
            ),
        ),
        **extra,
    )
    buffer = io.BytesIO()
    entity_writer(module.FetchRequest)(buffer, message)
    return buffer.getvalue()


int32s = st.integers(0, (1 << 31) - 1)
int64s = st.integers(0, (1 << 63) - 1)


@pytest.mark.parametrize("version", VERSIONS)
@given(st.lists(st.builds(PartitionRequest, int32s, int64s, int32s, int64s, int32s, int32s), max_size=4))
def test_a_request_that_kio_encoded_decodes_to_the_same(version: int, partitions: list[PartitionRequest]) -> None:
    decoded = fetch.decode_request(memoryview(_request(version, partitions)), 0, version)
    assert (decoded.replica_id, decoded.replica_epoch) == (4, 99 if version >= 15 else -1)
    assert (decoded.max_wait_ms, decoded.min_bytes, decoded.max_bytes, decoded.isolation_level) == (500, 1, 1000, 1)
    assert (decoded.session_id, decoded.session_epoch) == ((8, 3) if version >= 7 else (0, -1))
    assert decoded.rack_id == ("north" if version >= 11 else "")
    key = next(iter(_topic(version).values()))
    assert decoded.forgotten == ([(key, [5, 6])] if version >= 7 else [])
    (topic,) = decoded.topics
    assert topic.topic == key
    assert topic.partitions == [
        PartitionRequest(
            asked.partition,
            asked.fetch_offset,
            asked.max_bytes,
            asked.log_start_offset if version >= 5 else -1,
            asked.current_leader_epoch if version >= 9 else -1,
            asked.last_fetched_epoch if version >= 12 else -1,
        )
        for asked in partitions
    ]


@pytest.mark.parametrize("version", VERSIONS)
def test_a_request_truncated_at_any_byte_is_malformed(version: int) -> None:
    whole = _request(version, [PartitionRequest(1, 2, 3)])
    for end in range(len(whole)):
        with pytest.raises(MalformedRequest):
            fetch.decode_request(memoryview(whole[:end]), 0, version)


@pytest.mark.parametrize("version", VERSIONS)
@given(st.binary(max_size=300), st.none() | st.lists(st.tuples(int64s, int64s), max_size=3), int64s)
def test_kio_decodes_the_response(
    version: int, records: bytes, aborted: list[tuple[int, int]] | None, offset: int
) -> None:
    key = next(iter(_topic(version).values()))
    good = PartitionResponse(1, 0, offset, offset, offset, aborted, 6, records)
    code = ErrorCode.fenced_leader_epoch
    bad = PartitionResponse(2, code.value, diverging_epoch=(3, 4), current_leader=(5, 6))
    pieces = fetch.encode_response([TopicResponse(key, [good, bad, good])], version, error_code=0, session_id=12)
    encoded = b"".join(pieces)
    response, size = entity_reader(_kio(version, "response").FetchResponse)(encoded, 0)
    assert size == len(encoded)
    if version >= 7:
        assert response.session_id == 12
    (topic,) = response.responses
    assert (topic.topic if version < 13 else topic.topic_id) == key
    first, second, third = topic.partitions
    assert first == third
    assert (first.partition_index, first.high_watermark, first.last_stable_offset) == (1, offset, offset)
    assert (first.records or b"") == records
    found = first.aborted_transactions
    assert aborted == (None if found is None else [(entry.producer_id, entry.first_offset) for entry in found])
    if version >= 11:
        assert first.preferred_read_replica == 6
    assert second.error_code is code
    if version >= 12:
        assert (second.diverging_epoch.epoch, second.diverging_epoch.end_offset) == (3, 4)
        assert (second.current_leader.leader_id, second.current_leader.leader_epoch) == (5, 6)
