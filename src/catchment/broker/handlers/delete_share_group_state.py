"""DeleteShareGroupState (key 86): forget what a share group has done with a partition (KIP-932).

Behaviour
    Each partition is answered for itself, once it is safe in the log. To forget what is not known is no mistake.
Versions
    0.
Gaps
    None.
"""

import asyncio
from uuid import UUID

from kio.schema.delete_share_group_state.v0.request import DeleteShareGroupStateRequest, PartitionData
from kio.schema.delete_share_group_state.v0.response import (
    DeleteShareGroupStateResponse,
    DeleteStateResult,
    PartitionResult,
)
from kio.schema.errors import ErrorCode

from catchment.broker.context import RequestContext
from catchment.broker.routing import api
from catchment.protocol.errors import ApiError

_NO_TOPIC = UUID(int=0)


@api(86, versions=(0, 0))
async def delete_share_group_state(
    context: RequestContext, request: DeleteShareGroupStateRequest
) -> DeleteShareGroupStateResponse:
    topics = request.topics if request.group_id else ()
    results = await asyncio.gather(
        *[
            _delete(context, request.group_id, topic.topic_id or _NO_TOPIC, asked)
            for topic in topics
            for asked in topic.partitions
        ]
    )
    following = iter(results)
    return DeleteShareGroupStateResponse(
        results=tuple(
            DeleteStateResult(topic_id=topic.topic_id, partitions=tuple(next(following) for _ in topic.partitions))
            for topic in topics
        )
    )


async def _delete(context: RequestContext, group_id: str, topic_id: UUID, asked: PartitionData) -> PartitionResult:
    try:
        await context.services.share_state.delete(group_id, topic_id, asked.partition)
    except ApiError as error:
        return PartitionResult(partition=asked.partition, error_code=error.code, error_message=error.message)
    return PartitionResult(partition=asked.partition, error_code=ErrorCode.none, error_message=None)
