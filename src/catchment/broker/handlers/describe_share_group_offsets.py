"""DescribeShareGroupOffsets (key 90): the start offsets and lag of share groups (KIP-932).

Behaviour
    Without topics, all partitions with a share state are returned. A partition that the group has not started to read has start
    offset -1, and so has one of a topic that does not exist, as in Kafka. The lag is the number of records between start offset
    and high watermark, without those that are already completely delivered (KIP-1226); it is -1 where that is unknown.
Versions
    0-1. Lag since 1.
Gaps
    None.
"""

from collections.abc import Mapping, Sequence

from kio.schema.describe_share_group_offsets.v1.request import (
    DescribeShareGroupOffsetsRequest,
    DescribeShareGroupOffsetsRequestGroup,
)
from kio.schema.describe_share_group_offsets.v1.response import (
    DescribeShareGroupOffsetsResponse,
    DescribeShareGroupOffsetsResponseGroup,
    DescribeShareGroupOffsetsResponsePartition,
    DescribeShareGroupOffsetsResponseTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.share.group_offsets import initialized
from catchment.broker.turns import Turns, gather_in_turns
from catchment.cluster.metadata import TopicImage
from catchment.coordination.share_state.batches import NO_START
from catchment.coordination.share_state.records import NO_COUNT, ShareState
from catchment.protocol.errors import ApiError

_NO_LAG = -1


@api(90, versions=(0, 1))
async def describe_share_group_offsets(
    context: RequestContext, request: DescribeShareGroupOffsetsRequest
) -> DescribeShareGroupOffsetsResponse:
    turns = Turns()
    groups = [await _group(context, asked, turns) async for asked in turns(request.groups)]
    return DescribeShareGroupOffsetsResponse(throttle_time=NO_THROTTLE, groups=tuple(groups))


async def _group(
    context: RequestContext, asked: DescribeShareGroupOffsetsRequestGroup, turns: Turns
) -> DescribeShareGroupOffsetsResponseGroup:
    try:
        if not asked.group_id:
            raise ApiError(ErrorCode.invalid_group_id)
        wanted = await _wanted(context, asked)
    except ApiError as error:
        return DescribeShareGroupOffsetsResponseGroup(
            group_id=asked.group_id, topics=(), error_code=error.code, error_message=error.message
        )
    return DescribeShareGroupOffsetsResponseGroup(
        group_id=asked.group_id,
        topics=tuple(
            [await _topic(context, asked.group_id, name, numbers) async for name, numbers in turns(wanted.items())]
        ),
        error_code=ErrorCode.none,
        error_message=None,
    )


async def _wanted(context: RequestContext, asked: DescribeShareGroupOffsetsRequestGroup) -> Mapping[str, Sequence[int]]:
    if asked.topics is not None:
        return {topic.topic_name: topic.partitions for topic in asked.topics}
    topics = await initialized(context.services, asked.group_id)
    known = context.image.topics_by_id
    return {known[topic_id].name: sorted(topic.partitions) for topic_id, topic in topics.items() if topic_id in known}


async def _topic(
    context: RequestContext, group_id: str, name: str, numbers: Sequence[int]
) -> DescribeShareGroupOffsetsResponseTopic:
    topic = context.image.topics.get(name)
    return DescribeShareGroupOffsetsResponseTopic(
        topic_name=TopicName(name),
        topic_id=None if topic is None else topic.id,
        partitions=tuple(
            await gather_in_turns(_partition(context, group_id, topic, number) for number in dict.fromkeys(numbers))
        ),
    )


async def _partition(
    context: RequestContext, group_id: str, topic: TopicImage | None, number: int
) -> DescribeShareGroupOffsetsResponsePartition:
    try:
        start_offset, leader_epoch, lag = NO_START, 0, _NO_LAG
        if topic is not None:
            state = await context.services.share_state.read_summary(group_id, topic.id, number)
            start_offset, leader_epoch = state.start_offset, state.leader_epoch
            lag = _lag(context, topic.name, number, state)
    except ApiError as error:
        return DescribeShareGroupOffsetsResponsePartition(
            partition_index=i32(number),
            start_offset=i64(NO_START),
            leader_epoch=i32(0),
            error_code=error.code,
            error_message=error.message,
        )
    return DescribeShareGroupOffsetsResponsePartition(
        partition_index=i32(number),
        start_offset=i64(start_offset),
        leader_epoch=i32(leader_epoch),
        lag=i64(lag),
        error_code=ErrorCode.none,
        error_message=None,
    )


def _lag(context: RequestContext, topic: str, number: int, state: ShareState) -> int:
    if state.start_offset == NO_START or state.delivery_complete_count == NO_COUNT:
        return _NO_LAG
    high_watermark = context.services.replicas.find(topic, number).high_watermark
    return high_watermark - state.start_offset - state.delivery_complete_count
