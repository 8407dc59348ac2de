"""ListOffsets (key 2): the offset at a time, or at one of the ends of a partition.

Behaviour
    A timestamp gives the first record that is at least as new. The negative ones ask for: -1 the end that the isolation
    level allows, -2 the start, -3 the record with the largest timestamp (KIP-734), -4 the start on local disk (KIP-405),
    -5 the last offset in remote storage (KIP-1005), -6 the first offset that is not in remote storage yet (KIP-1023).
    All storage is local here, so -4 and -6 are the start, and -5 has no answer.
Versions
    1-11. Leader epochs are fenced from version 4 on.
Gaps
    None.
"""

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


@api(2, versions=(1, 11))
async def list_offsets(context: RequestContext, request: ListOffsetsRequest) -> ListOffsetsResponse:
    committed = request.isolation_level == i8(READ_COMMITTED)
    return ListOffsetsResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(_topic(context, topic, committed=committed) for topic in request.topics),
    )


def _topic(context: RequestContext, topic: ListOffsetsTopic, *, committed: bool) -> ListOffsetsTopicResponse:
    return ListOffsetsTopicResponse(
        name=topic.name,
        partitions=tuple(_partition(context, topic.name, asked, committed=committed) for asked in topic.partitions),
    )


def _partition(
    context: RequestContext, topic: str, asked: ListOffsetsPartition, *, committed: bool
) -> ListOffsetsPartitionResponse:
    timestamp_ms, offset, leader_epoch = _NOTHING
    error = ErrorCode.none
    try:
        partition = context.services.replicas.find(topic, asked.partition_index)
        partition.check_epoch(asked.current_leader_epoch)
        timestamp_ms, offset, leader_epoch = _look_up(partition, asked.timestamp, committed=committed)
    except ApiError as failure:
        error = failure.code
    return ListOffsetsPartitionResponse(
        partition_index=asked.partition_index,
        error_code=error,
        timestamp=i64(timestamp_ms),
        offset=i64(offset),
        leader_epoch=i32(leader_epoch),
    )


def _look_up(partition: Partition, timestamp_ms: int, *, committed: bool) -> tuple[int, int, int]:
    """Timestamp, offset and leader epoch; offset -1 if there is no such record."""
    log = partition.log
    end = partition.last_stable_offset if committed else partition.high_watermark
    if timestamp_ms == LATEST:
        return -1, end, partition.leader_epoch
    if timestamp_ms in (EARLIEST, EARLIEST_LOCAL, EARLIEST_PENDING_UPLOAD):
        return -1, log.log_start_offset, log.leader_epochs.at(log.log_start_offset)
    if timestamp_ms == LATEST_TIERED:
        return _NOTHING
    is_largest = timestamp_ms == MAX_TIMESTAMP
    found = log.offset_of_max_timestamp() if is_largest else log.offset_for_timestamp(timestamp_ms, end)
    return found if found is not None and found.offset < end else _NOTHING
