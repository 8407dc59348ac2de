"""ListOffsets (key 2): the offset at a time, or at one of the ends of a partition.

Behaviour
    A timestamp gives the first record that is at least as new. The negative ones ask for: -1 the end that the isolation
    level allows, -2 the start, -3 the record with the largest timestamp (KIP-734), -4 the start on local disk (KIP-405),
    -5 the last offset in remote storage (KIP-1005), -6 the first offset that is not in remote storage yet (KIP-1023).
    All storage is local here, so -4 is the start, and -5 and -6 have no answer. The start of an empty partition has the
    current leader epoch. A worker looks into the batch that holds a timestamp; later requests of the connection wait for
    that, those of others do not. A log that cannot be read is a KAFKA_STORAGE_ERROR or CORRUPT_MESSAGE of its partition.
    Many partitions are looked up in turns. A partition that a request names twice is an INVALID_REQUEST.
Versions
    1-11. Leader epochs are fenced from version 4 on. -3 from version 7 on, -4 from 8, -5 from 9, -6 from 11: before, and
    for other negative times, the answer is UNSUPPORTED_VERSION.
Gaps
    None.
"""

from collections import Counter
from collections.abc import Set

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.static.primitive import i8, i32, i64

from catchment.broker.answers import NO_THROTTLE
from catchment.broker.context import RequestContext
from catchment.broker.routing import api
from catchment.broker.time_searches import find_max_timestamp, find_timestamp
from catchment.broker.turns import Turns
from catchment.protocol.errors import ApiError
from catchment.protocol.fetch import READ_COMMITTED
from catchment.replication.partition import Partition

LATEST = -1
EARLIEST = -2
MAX_TIMESTAMP = -3
EARLIEST_LOCAL = -4
LATEST_TIERED = -5
EARLIEST_PENDING_UPLOAD = -6

_NOTHING = (-1, -1, -1)
_FIRST_VERSIONS = {
    LATEST: 1,
    EARLIEST: 1,
    MAX_TIMESTAMP: 7,
    EARLIEST_LOCAL: 8,
    LATEST_TIERED: 9,
    EARLIEST_PENDING_UPLOAD: 11,
}


@api(2, versions=(1, 11), holds_up=True, ends_with_client=True)
async def list_offsets(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    committed = request.isolation_level == i8(READ_COMMITTED)
    named = Counter((topic.name, asked.partition_index) for topic in request.topics for asked in topic.partitions)
    repeated = {partition for partition, times in named.items() if times > 1}
    turns = Turns()
    topics = [
        await _topic(context, topic, repeated, turns, committed=committed) async for topic in turns(request.topics)
    ]
    return ListOffsetsResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


async def _topic(
    context: RequestContext, topic: ListOffsetsTopic, repeated: Set[tuple[str, int]], turns: Turns, *, committed: bool
) -> ListOffsetsTopicResponse:
    partitions = {asked.partition_index: asked for asked in topic.partitions}
    answers = [
        await _partition(context, topic.name, asked, committed=committed, repeated=(topic.name, number) in repeated)
        async for number, asked in turns(partitions.items())
    ]
    return ListOffsetsTopicResponse(name=topic.name, partitions=tuple(answers))


async def _partition(
    context: RequestContext, topic: str, asked: ListOffsetsPartition, *, committed: bool, repeated: bool
) -> ListOffsetsPartitionResponse:
    timestamp_ms, offset, leader_epoch = _NOTHING
    error = ErrorCode.none
    try:
        _check(asked.timestamp, context.header.api_version, repeated=repeated)
        partition = context.services.replicas.find(topic, asked.partition_index)
        partition.check_epoch(asked.current_leader_epoch)
        timestamp_ms, offset, leader_epoch = await _look_up(context, partition, asked.timestamp, committed=committed)
    except ApiError as failure:
        error = failure.code
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=error,
        timestamp=i64(timestamp_ms),
        offset=i64(offset),
        leader_epoch=i32(leader_epoch),
    )


def _check(timestamp_ms: int, version: int, *, repeated: bool) -> None:
    if repeated:
        raise ApiError(ErrorCode.invalid_request)
    if timestamp_ms < 0 and version < _FIRST_VERSIONS.get(timestamp_ms, version + 1):
        raise ApiError(ErrorCode.unsupported_version)


async def _look_up(
    context: RequestContext, partition: Partition, timestamp_ms: int, *, committed: bool
) -> tuple[int, int, int]:
    """Timestamp, offset and leader epoch; offset -1 if there is no such record."""
    log = partition.log
    end = partition.last_stable_offset if committed else partition.high_watermark
    if timestamp_ms == LATEST:
        return -1, end, partition.leader_epoch
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL):
        start = log.log_start_offset
        # The log notes an epoch with its first record: what an empty one will hold next is of the current epoch.
        return -1, start, partition.leader_epoch if start == log.log_end_offset else log.leader_epochs.at(start)
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOTHING
    if timestamp_ms == MAX_TIMESTAMP:
        found = await find_max_timestamp(context.services, partition)
    else:
        found = await find_timestamp(context.services, partition, timestamp_ms)
    return found if found is not None and found.offset < end else _NOTHING
