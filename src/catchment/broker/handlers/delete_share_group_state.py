"""DeleteShareGroupState (key 86): delete the share state of partitions (KIP-932).

Behaviour
    Each partition has its own result, sent once the deletion is durable. Deleting a state that does not exist is no error.
Versions
    0.
Gaps
    None.
"""

from functools import partial
from uuid import UUID

from kio.schema.delete_share_group_state.v0.request import DeleteShareGroupStateRequest, PartitionData
from kio.schema.delete_share_group_state.v0.response import (
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)
from kio.schema.errors import ErrorCode

from catchment.broker.context import RequestContext
from catchment.broker.network.routing import api
from catchment.broker.share.state_requests import by_topic
from catchment.protocol.errors import ApiError


@api(86, versions=(0, 0))
async def delete_share_group_state(
    context: RequestContext, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    topics = await by_topic(request, partial(_delete, context, request.group_id))
    return DeleteShareGroupStateResponse(
        results=tuple(DeleteStateResult(topic_id=topic_id, partitions=partitions) for topic_id, partitions in topics)
    )


async def _delete(context: RequestContext, group_id: str, topic_id: UUID, asked: PartitionData) -> PartitionResult:
    try:
        await context.services.share_state.delete(group_id, topic_id, asked.partition)
    except ApiError as error:
        return PartitionResult(partition=asked.partition, error_code=error.code, error_message=error.message)
    return PartitionResult(partition=asked.partition, error_code=ErrorCode.none, error_message=None)
