"""Produce, Fetch and ListOffsets requests as the tests of the log's handlers send them."""

from datetime import timedelta
from typing import Any, NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.fetch.v18.request import FetchPartition, FetchRequest
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.produce.v13.request import PartitionProduceData, ProduceRequest
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import Records, i8, i16, i32, i32Timedelta, i64
from tests.broker.handlers.wire import Wire

from catchment.protocol.adapters.fetch import FetchTopic, ForgottenTopic
from catchment.protocol.adapters.produce import TopicProduceData
from catchment.protocol.batch import iterate_headers
from catchment.protocol.records import encode_batch, numbered, read_records

ALL, LEADER, NONE = -1, 1, 0
NO_WAIT = 0


def milliseconds(count: int) -> i32Timedelta:
    return i32Timedelta.parse(timedelta(milliseconds=count))


def batch(*values: bytes, **fields: Any) -> bytes:
    return encode_batch(numbered((None, value) for value in values), **fields)


def topic_id(wire: Wire, topic: str) -> UUID:
    request = MetadataRequest(
        topics=(MetadataRequestTopic(topic_id=None, name=TopicName(topic)),),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    found = wire.ask(request, 12).topics[0].topic_id
    assert isinstance(found, UUID)
    return found


def produce_request(
    wire: Wire, topic: str, records: bytes | None, *, version: int = 13, acks: int = ALL, partition: int = 0
) -> ProduceRequest:
    data = PartitionProduceData(index=i32(partition), records=None if records is None else Records(records))
    by_id = {"topic_id": topic_id(wire, topic)} if version >= 13 else {"topic_id": None}
    return ProduceRequest(
        acks=i16(acks),
        timeout=milliseconds(30_000),
        topic_data=(TopicProduceData(name=TopicName(topic), partition_data=(data,), **by_id),),
    )


def append(
    wire: Wire, topic: str, records: bytes | None, *, version: int = 13, acks: int = ALL, partition: int = 0
) -> Any:
    """The answer for the one partition produced to."""
    request = produce_request(wire, topic, records, version=version, acks=acks, partition=partition)
    return wire.ask(request, version).responses[0].partition_responses[0]


class Fetched(NamedTuple):
    error: ErrorCode
    session_id: int
    partitions: list[tuple[int, Any]]
    """(partition, answer) in the order of the answer."""

    def values(self, number: int = 0) -> list[bytes | None]:
        return values_in(dict(self.partitions)[number].records or b"")


def values_in(records: bytes) -> list[bytes | None]:
    return [
        record.value
        for position, header in iterate_headers(records)
        for record in read_records(records[position : position + header.size], 1 << 20)
    ]


def fetch_request(
    topic: UUID | str | None,
    *offsets: tuple[int, int],
    max_wait_ms: int = NO_WAIT,
    min_bytes: int = 1,
    max_bytes: int = 1 << 20,
    partition_max_bytes: int = 1 << 20,
    session: tuple[int, int] = (0, -1),
    forgotten: tuple[int, ...] = (),
    leader_epoch: int = -1,
    isolation_level: int = 0,
) -> FetchRequest:
    key: dict[str, Any] = (
        {"topic": TopicName(topic), "topic_id": None} if isinstance(topic, str) else {"topic_id": topic}
    )
    partitions = tuple(
        FetchPartition(
            partition=i32(number),
            fetch_offset=i64(offset),
            partition_max_bytes=i32(partition_max_bytes),
            current_leader_epoch=i32(leader_epoch),
        )
        for number, offset in offsets
    )
    gone = (ForgottenTopic(**key, partitions=tuple(i32(number) for number in forgotten)),) if forgotten else ()
    return FetchRequest(
        max_wait=milliseconds(max_wait_ms),
        min_bytes=i32(min_bytes),
        max_bytes=i32(max_bytes),
        isolation_level=i8(isolation_level),
        session_id=i32(session[0]),
        session_epoch=i32(session[1]),
        topics=(FetchTopic(**key, partitions=partitions),) if partitions else (),
        forgotten_topics_data=gone,
        rack_id="",
    )


def fetch(wire: Wire, request: FetchRequest, version: int = 18) -> Fetched:
    answer = wire.ask(request, version)
    found = [(each.partition_index, each) for topic in answer.responses for each in topic.partitions]
    return Fetched(answer.error_code, answer.session_id, found)


def list_offset(
    wire: Wire,
    topic: str,
    timestamp_ms: int,
    *,
    version: int = 11,
    leader_epoch: int = -1,
    isolation_level: int = 0,
) -> Any:
    partition = ListOffsetsPartition(
        partition_index=i32(0), current_leader_epoch=i32(leader_epoch), timestamp=i64(timestamp_ms)
    )
    request = ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(isolation_level),
        topics=(ListOffsetsTopic(name=TopicName(topic), partitions=(partition,)),),
        timeout=milliseconds(1000),
    )
    return wire.ask(request, version).topics[0].partitions[0]
