"""OffsetForLeaderEpoch (key 23): the end offset of a leader epoch, with which clients detect log truncation (KIP-101, KIP-320).

Behaviour
    The result is the largest epoch that is not above the requested one, and its end offset; for the current epoch that is the log
    end offset. An epoch before the first known one, or -1, returns -1 and -1.
Versions
    2-4. Version 4 is the first flexible one.
Gaps
    None.
"""

from kio.schema.errors import ErrorCode
from kio.schema.offset_for_leader_epoch.v4.request import (
    OffsetForLeaderEpochRequest,
    OffsetForLeaderPartition,
    OffsetForLeaderTopic,
)
from kio.schema.offset_for_leader_epoch.v4.response import (
    EpochEndOffset,
    OffsetForLeaderEpochResponse,
    OffsetForLeaderTopicResult,
)
from kio.static.primitive import i32, i64

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.protocol.errors import ApiError


@api(23, versions=(2, 4))
async def offset_for_leader_epoch(
    context: RequestContext, request: OffsetForLeaderEpochRequest
) -> OffsetForLeaderEpochResponse:
    turns = Turns()
    topics = [await _topic(context, topic, turns) async for topic in turns(request.topics)]
    return OffsetForLeaderEpochResponse(throttle_time=NO_THROTTLE, topics=tuple(topics))


async def _topic(context: RequestContext, topic: OffsetForLeaderTopic, turns: Turns) -> OffsetForLeaderTopicResult:
    partitions = [_partition(context, topic.topic, asked) async for asked in turns(topic.partitions)]
    return OffsetForLeaderTopicResult(topic=topic.topic, partitions=tuple(partitions))


def _partition(context: RequestContext, topic: str, asked: OffsetForLeaderPartition) -> EpochEndOffset:
    code, epoch, end_offset = ErrorCode.none, -1, -1
    try:
        partition = context.services.replicas.find(topic, asked.partition)
        partition.check_epoch(asked.current_leader_epoch)
        epoch, end_offset = partition.epoch_end_offset(asked.leader_epoch)
    except ApiError as error:
        code = error.code
    return EpochEndOffset(
        error_code=code, partition=asked.partition, leader_epoch=i32(epoch), end_offset=i64(end_offset)
    )
