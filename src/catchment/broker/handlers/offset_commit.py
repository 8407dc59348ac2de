"""OffsetCommit (key 8): remember how far a group has come.

Behaviour
    The answer comes when the offsets are safe in the log. Each partition answers for itself: a topic that does not exist and
    too much metadata fail alone, a wrong generation or member fails them all. Without members, anybody may commit (-1). A
    member of a consumer group commits with its epoch; with an older one only what it had then already (KIP-1251).
Versions
    2-10. Retention times (2-4) are ignored, as Kafka has done since 2.1 (KIP-211). Instance ids from 7 on, member
    epochs from 9 on, topic ids from 10 on.
Gaps
    None.
"""

from typing import NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v10.request import OffsetCommitRequest
from kio.schema.offset_commit.v10.request import OffsetCommitRequestTopic as TopicAsked
from kio.schema.offset_commit.v10.response import OffsetCommitResponse, OffsetCommitResponsePartition
from kio.schema.types import TopicName

from catchment.broker.answers import NO_THROTTLE
from catchment.broker.context import RequestContext
from catchment.broker.routing import api
from catchment.coordination.commands import OffsetToCommit
from catchment.protocol.adapters.offset_commit import OffsetCommitResponseTopic
from catchment.protocol.errors import ApiError


class _Asked(NamedTuple):
    topic: TopicAsked
    name: str | None
    """None where there is no such topic."""


@api(8, versions=(2, 10))
async def offset_commit(context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    asked = [_Asked(topic, _known_name(context, topic)) for topic in request.topics]
    offsets = [
        OffsetToCommit(
            name,
            partition.partition_index,
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata or "",
        )
        for topic, name in asked
        if name is not None
        for partition in topic.partitions
    ]
    try:
        outcomes = await context.services.groups.commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            offsets,
            context.header.api_version,
        )
    except ApiError as error:
        outcomes = [error.code] * len(offsets)
    following = iter(outcomes)
    return OffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            OffsetCommitResponseTopic(
                topic_id=topic.topic_id,
                name=_asked_name(topic),
                partitions=tuple(
                    OffsetCommitResponsePartition(
                        partition_index=partition.partition_index,
                        error_code=_unknown(topic) if name is None else next(following),
                    )
                    for partition in topic.partitions
                ),
            )
            for topic, name in asked
        ),
    )


def _asked_name(topic: TopicAsked) -> TopicName | None:
    name: TopicName | None = getattr(topic, "name", None)
    return name


def _known_name(context: RequestContext, topic: TopicAsked) -> str | None:
    name = _asked_name(topic)
    image = context.image
    found = image.topics_by_id.get(topic.topic_id) if topic.topic_id is not None else image.topics.get(name or "")
    return None if found is None else found.name


def _unknown(topic: TopicAsked) -> ErrorCode:
    return ErrorCode.unknown_topic_or_partition if _asked_name(topic) is not None else ErrorCode.unknown_topic_id
