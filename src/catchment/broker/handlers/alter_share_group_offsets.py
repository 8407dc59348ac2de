"""AlterShareGroupOffsets (key 91): reset the offsets of a share group without members (KIP-932).

Behaviour
    A group that does not exist is created. A group with members gets NON_EMPTY_GROUP, a group of another type GROUP_ID_NOT_FOUND.
    The delivery state of a reset partition is discarded. Each partition has its own result, sent once its new start offset is
    durable.
Versions
    0.
Gaps
    None.
"""

from kio.schema.alter_share_group_offsets.v0.request import (
    AlterShareGroupOffsetsRequest,
    AlterShareGroupOffsetsRequestTopic,
)
from kio.schema.alter_share_group_offsets.v0.response import (
    AlterShareGroupOffsetsResponse,
    AlterShareGroupOffsetsResponsePartition,
    AlterShareGroupOffsetsResponseTopic,
)
from kio.schema.errors import ErrorCode

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.share.group_offsets import Failures, SharePartition, alter
from catchment.broker.turns import Turns
from catchment.cluster.metadata import MetadataImage
from catchment.protocol.errors import ApiError

_UNKNOWN = ApiError(ErrorCode.unknown_topic_or_partition)


@api(91, versions=(0, 0))
async def alter_share_group_offsets(
    context: RequestContext, request: AlterShareGroupOffsetsRequest
) -> AlterShareGroupOffsetsResponse:
    image, turns = context.image, Turns()
    try:
        if not request.group_id:
            raise ApiError(ErrorCode.invalid_group_id)
        failures = await alter(context.services, request.group_id, _starts(image, request))
    except ApiError as error:
        return AlterShareGroupOffsetsResponse(
            throttle_time=NO_THROTTLE, error_code=error.code, error_message=error.message, responses=()
        )
    return AlterShareGroupOffsetsResponse(
        throttle_time=NO_THROTTLE,
        error_code=ErrorCode.none,
        error_message=None,
        responses=tuple([await _topic(image, topic, failures, turns) async for topic in turns(request.topics)]),
    )


def _starts(image: MetadataImage, request: AlterShareGroupOffsetsRequest) -> dict[SharePartition, int]:
    """The offsets of all partitions that exist."""
    return {
        (image.topics[topic.topic_name].id, asked.partition_index): asked.start_offset
        for topic in request.topics
        for asked in topic.partitions
        if image.partition(topic.topic_name, asked.partition_index) is not None
    }


async def _topic(
    image: MetadataImage, topic: AlterShareGroupOffsetsRequestTopic, failures: Failures, turns: Turns
) -> AlterShareGroupOffsetsResponseTopic:
    known = image.topics.get(topic.topic_name)
    results = []
    async for asked in turns(topic.partitions):
        exists = image.partition(topic.topic_name, asked.partition_index) is not None
        failure = failures.get((known.id, asked.partition_index)) if known is not None and exists else _UNKNOWN
        results.append(
            AlterShareGroupOffsetsResponsePartition(
                partition_index=asked.partition_index,
                error_code=ErrorCode.none if failure is None else failure.code,
                error_message=None if failure is None else failure.message,
            )
        )
    return AlterShareGroupOffsetsResponseTopic(
        topic_name=topic.topic_name, topic_id=None if known is None else known.id, partitions=tuple(results)
    )
