"""ListOffsets (key 2): the offset of a timestamp, or of one end of a partition.

Behaviour
    A timestamp returns the first record that is at least as new. Negative values: -1 the end that the isolation level allows, -2
    the log start, -3 the record with the largest timestamp (KIP-734), -4 the local log start (KIP-405), -5 the last offset in
    remote storage (KIP-1005), -6 the first offset that is not yet in remote storage (KIP-1023). All storage is local, so -4 is the
    log start, and -5 and -6 return no offset. The start of an empty partition has the current leader epoch.
    A worker searches the batch with the timestamp; later requests of the connection wait for it, other connections do not. If a
    log cannot be read, its partition gets KAFKA_STORAGE_ERROR or CORRUPT_MESSAGE. Many partitions are processed in turns. A
    partition that appears twice gets INVALID_REQUEST.
Versions
    1-11. Leader epochs are checked since 4. -3 since 7, -4 since 8, -5 since 9, -6 since 11: before that, and for other negative
    values, the partition gets UNSUPPORTED_VERSION.
Gaps
    None.
"""

import asyncio
from collections import Counter
from collections.abc import Set
from functools import partial

from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.list_offsets.v11.response import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from kio.static.primitive import i8, i32, i64

from catchment.broker.context import NO_THROTTLE, RequestContext, Services
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.protocol.errors import ApiError
from catchment.protocol.fetch import READ_COMMITTED
from catchment.replication.partition import Partition
from catchment.storage.segments.time_search import BatchToOpen, TimeSearch, TimestampedOffset

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


@api(2, versions=(1, 11), blocks_connection=True, cancel_on_disconnect=True)
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
    responses = [
        await _partition(context, topic.name, asked, committed=committed, repeated=(topic.name, number) in repeated)
        async for number, asked in turns(partitions.items())
    ]
    return ListOffsetsTopicResponse(name=topic.name, partitions=tuple(responses))


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
        # The log records an epoch with its first record: the next record of an empty log has the current epoch.
        return -1, start, partition.leader_epoch if start == log.log_end_offset else log.leader_epochs.at(start)
    if timestamp_ms in (LATEST_TIERED, EARLIEST_PENDING_UPLOAD):
        return _NOTHING
    if timestamp_ms == MAX_TIMESTAMP:
        found = await _search(context.services, partition, log.search_max_timestamp())
    else:
        found = await _find_timestamp(context.services, partition, timestamp_ms)
    return found if found is not None and found.offset < end else _NOTHING


async def _find_timestamp(services: Services, partition: Partition, timestamp_ms: int) -> TimestampedOffset | None:
    """The first record that is at least as late; ApiError if the log cannot be read, or was deleted during the search."""
    while True:
        found = await _search(services, partition, partition.log.search_timestamp(timestamp_ms))
        if found is None or found.offset >= partition.log.log_start_offset:
            return found


async def _search(services: Services, partition: Partition, steps: TimeSearch) -> TimestampedOffset | None:
    try:
        found = await _run(services, steps)
    except ApiError:
        # The log of a deleted topic cannot be read: then the better error is that the topic is gone.
        _check_presence(services, partition)
        raise
    _check_presence(services, partition)
    return found


def _check_presence(services: Services, partition: Partition) -> None:
    if services.replicas.find(partition.topic, partition.number) is not partition:
        raise ApiError(ErrorCode.not_leader_or_follower)


async def _run(services: Services, steps: TimeSearch) -> TimestampedOffset | None:
    """Run a search step by step: batches are read and decompressed elsewhere, so that the event loop is not blocked."""
    try:
        step = next(steps)
        while True:
            if step is None:
                await asyncio.sleep(0)
                step = steps.send(None)
                continue
            try:
                answer = await _open(services, step)
            except Exception as error:
                # The search turns it into the error for the client.
                step = steps.throw(error)
            else:
                step = steps.send(answer)
    except StopIteration as end:
        found: TimestampedOffset | None = end.value
        return found


async def _open(services: Services, batch: BatchToOpen) -> TimestampedOffset | None:
    file, position, size = batch.file, batch.position, batch.header.size
    if file.would_block(position, size):
        data = await services.disk.read_later(file, position, size)
    else:
        data = file.read(position, size)
    return await services.workers.run(partial(batch.find, data))
