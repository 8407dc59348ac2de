"""InitializeShareGroupState (key 83): initialize the share state of partitions (KIP-932).

Behaviour
    The group coordinator sends it when a share group first subscribes to a partition, or when the group's offsets are altered: an
    existing state is replaced. A state epoch below the current one gets FENCED_STATE_EPOCH. Each partition has its own result,
    sent once its state is durable.
Versions
    0.
Gaps
    None.
"""

from functools import partial
from uuid import UUID

from kio.schema.errors import ErrorCode
from kio.schema.initialize_share_group_state.v0.request import InitializeShareGroupStateRequest, PartitionData
from kio.schema.initialize_share_group_state.v0.response import (
    InitializeShareGroupStateResponse,
    InitializeStateResult,
    PartitionResult,
)

from catchment.broker.context import RequestContext
from catchment.broker.network.routing import api
from catchment.broker.share.state_requests import by_topic
from catchment.protocol.errors import ApiError


@api(83, versions=(0, 0))
async def initialize_share_group_state(
    context: RequestContext, request: InitializeShareGroupStateRequest
) -> InitializeShareGroupStateResponse:
    topics = await by_topic(request, partial(_initialize, context, request.group_id))
    return InitializeShareGroupStateResponse(
        results=tuple(
            InitializeStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics
        )
    )


async def _initialize(context: RequestContext, group_id: str, topic_id: UUID, asked: PartitionData) -> PartitionResult:
    try:
        await context.services.share_state.initialize(
            group_id, topic_id, asked.partition, asked.state_epoch, asked.start_offset
        )
    except ApiError as error:
        return PartitionResult(partition=asked.partition, error_code=error.code, error_message=error.message)
    return PartitionResult(partition=asked.partition, error_code=ErrorCode.none, error_message=None)
