"""DeleteShareGroupOffsets (key 92): delete the offsets of a share group without members (KIP-932).

Behaviour
    A group that does not exist, or is of another type, gets GROUP_ID_NOT_FOUND, a group with members NON_EMPTY_GROUP. A topic
    without a share state gets UNKNOWN_TOPIC_OR_PARTITION. Each topic has its own result, sent once the deletion is durable.
Versions
    0.
Gaps
    None.
"""

from kio.schema.delete_share_group_offsets.v0.request import DeleteShareGroupOffsetsRequest
from kio.schema.delete_share_group_offsets.v0.response import (
    DeleteShareGroupOffsetsResponse,
    DeleteShareGroupOffsetsResponseTopic,
)
from kio.schema.errors import ErrorCode
from kio.schema.types import TopicName

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.share.group_offsets import delete
from catchment.broker.turns import Turns
from catchment.cluster.metadata import TopicImage
from catchment.protocol.errors import ApiError

_UNKNOWN = ApiError(ErrorCode.unknown_topic_or_partition)


@api(92, versions=(0, 0))
async def delete_share_group_offsets(
    context: RequestContext, request: DeleteShareGroupOffsetsRequest
) -> DeleteShareGroupOffsetsResponse:
    known = context.image.topics
    names = list(dict.fromkeys(topic.topic_name for topic in request.topics))
    try:
        if not request.group_id:
            raise ApiError(ErrorCode.invalid_group_id)
        failures = await delete(context.services, request.group_id, [known[name] for name in names if name in known])
    except ApiError as error:
        return DeleteShareGroupOffsetsResponse(
            throttle_time=NO_THROTTLE, error_code=error.code, error_message=error.message, responses=()
        )
    return DeleteShareGroupOffsetsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple(
            [
                _topic(name, topic, _UNKNOWN if topic is None else failures.get(topic.id))
                async for name in Turns()(names)
                for topic in (known.get(name),)
            ]
        ),
    )


def _topic(name: TopicName, topic: TopicImage | None, failure: ApiError | None) -> DeleteShareGroupOffsetsResponseTopic:
    return DeleteShareGroupOffsetsResponseTopic(
        topic_name=name,
        topic_id=None if topic is None else topic.id,
        error_code=ErrorCode.none if failure is None else failure.code,
        error_message=None if failure is None else failure.message,
    )
