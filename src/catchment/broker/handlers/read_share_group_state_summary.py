"""ReadShareGroupStateSummary (key 87): the start offset of a share group in partitions (KIP-932).

Behaviour
    A partition without an initialized state has start offset -1. The leader epoch of the request is ignored: a summary fences no
    leader.
Versions
    0-1. The number of completed deliveries since 1 (KIP-1226).
Gaps
    None.
"""

from functools import partial
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.read_share_group_state_summary.v1.request import PartitionData, ReadShareGroupStateSummaryRequest
from kio.schema.read_share_group_state_summary.v1.response import (
    PartitionResult,
    ReadShareGroupStateSummaryResponse,
    ReadStateSummaryResult,
)
from kio.static.primitive import i32, i64

from catchment.broker.context import RequestContext
from catchment.broker.network.routing import api
from catchment.broker.share.state_requests import by_topic
from catchment.protocol.errors import ApiError


@api(87, versions=(0, 1))
async def read_share_group_state_summary(
    context: RequestContext, request: ReadShareGroupStateSummaryRequest
) -> ReadShareGroupStateSummaryResponse:
    topics = await by_topic(request, partial(_read, context, request.group_id))
    return ReadShareGroupStateSummaryResponse(
        results=tuple(
            ReadStateSummaryResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics
        )
    )


async def _read(context: RequestContext, group_id: str, topic_id: UUID, asked: PartitionData) -> PartitionResult:
    try:
        state = await context.services.share_state.read_summary(group_id, topic_id, asked.partition)
    except ApiError as error:
        return PartitionResult(
            partition=asked.partition,
            error_code=error.code,
            error_message=error.message,
            state_epoch=i32(0),
            leader_epoch=i32(0),
            start_offset=i64(0),
        )
    return PartitionResult(
        partition=asked.partition,
        error_code=ErrorCode.none,
        error_message=None,
        state_epoch=i32(state.state_epoch),
        leader_epoch=i32(state.leader_epoch),
        start_offset=i64(state.start_offset),
        delivery_complete_count=i32(state.delivery_complete_count),
    )
