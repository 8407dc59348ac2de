"""OffsetDelete (key 47): forget offsets of topics that a group no longer reads (KIP-496).

Behaviour
    Offsets of a topic that a member subscribes to are kept (GROUP_SUBSCRIBED_TO_TOPIC). A group of another kind than consumers
    must be empty.
Versions
    0.
Gaps
    None.
"""

from kio.schema.errors import ErrorCode
from kio.schema.offset_delete.v0.request import OffsetDeleteRequest
from kio.schema.offset_delete.v0.response import (
    OffsetDeleteResponse,
    OffsetDeleteResponsePartition,
    OffsetDeleteResponseTopic,
)

from catchment.broker.answers import NO_THROTTLE
from catchment.broker.context import RequestContext
from catchment.broker.routing import api
from catchment.protocol.errors import ApiError


@api(47, versions=(0, 0))
async def offset_delete(context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    known = context.image.topics
    wanted = [
        (str(topic.name), int(partition.partition_index))
        for topic in request.topics
        if topic.name in known
        for partition in topic.partitions
    ]
    try:
        if not request.group_id:
            raise ApiError(ErrorCode.invalid_group_id)
        outcomes = await context.services.groups.delete_offsets(request.group_id, wanted)
    except ApiError as error:
        return OffsetDeleteResponse(error_code=error.code, throttle_time=NO_THROTTLE, topics=())
    following = iter(outcomes)
    return OffsetDeleteResponse(
        error_code=ErrorCode.none,
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetDeleteResponseTopic(
                name=topic.name,
                partitions=tuple(
                    OffsetDeleteResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=(next(following) if topic.name in known else ErrorCode.unknown_topic_or_partition),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic in request.topics
        ),
    )
