"""OffsetDelete (key 47): delete a group's committed offsets of topics (KIP-496).

Behaviour
    Offsets of a topic to which a member subscribes are kept (GROUP_SUBSCRIBED_TO_TOPIC). A classic group whose protocol type is
    not `consumer` must be empty.
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

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.coordination.groups.offsets import TopicPartition
from catchment.protocol.errors import ApiError

_OFFSETS_PER_BATCH = 1000
_UNKNOWN = ErrorCode.unknown_topic_or_partition


@api(47, versions=(0, 0))
async def offset_delete(context: RequestContext, request: OffsetDeleteRequest) -> OffsetDeleteResponse:
    known, turns = context.image.topics, Turns()
    wanted = [
        (str(topic.name), int(partition.partition_index))
        async for topic in turns(request.topics)
        if topic.name in known
        async for partition in turns(topic.partitions)
    ]
    try:
        if not request.group_id:
            raise ApiError(ErrorCode.invalid_group_id)
        once = list(dict.fromkeys(wanted))
        outcomes: dict[TopicPartition, ErrorCode] = {}
        for start in range(0, max(len(once), 1), _OFFSETS_PER_BATCH):
            some = once[start : start + _OFFSETS_PER_BATCH]
            outcomes.update(
                zip(some, await context.services.groups.delete_offsets(request.group_id, some), strict=True)
            )
    except ApiError as error:
        return OffsetDeleteResponse(error_code=error.code, throttle_time=NO_THROTTLE, topics=())
    return OffsetDeleteResponse(
        error_code=ErrorCode.none,
        throttle_time=NO_THROTTLE,
        topics=tuple(
            [
                OffsetDeleteResponseTopic(
                    name=topic.name,
                    partitions=tuple(
                        [
                            OffsetDeleteResponsePartition(
                                partition_index=one.partition_index,
                                error_code=outcomes.get((topic.name, one.partition_index), _UNKNOWN),
                            )
                            async for one in turns(topic.partitions)
                        ]
                    ),
                )
                async for topic in turns(request.topics)
            ]
        ),
    )
