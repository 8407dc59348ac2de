"""OffsetCommit (key 8): remember how far a group has come.

Behaviour
    The answer comes when the offsets are safe in the log. Each partition answers for itself: one that does not exist and
    too much metadata fail alone, a wrong generation or member fails them all. Without members, anybody may commit (-1). A
    member of a consumer group commits with its epoch; with an older one only what it had then already (KIP-1251).
    Offsets are written in batches of at most 200.
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

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns, gather_in_turns
from catchment.cluster.metadata import MetadataImage
from catchment.coordination.groups.records import OffsetToCommit
from catchment.protocol.adapters.offset_commit import OffsetCommitResponseTopic
from catchment.protocol.errors import ApiError

_OFFSETS_A_BATCH = 200
"""As many as fit into a batch of the offsets topic if each has the longest metadata, and as the loop can take in one step."""


class _Asked(NamedTuple):
    topic: TopicAsked
    name: str
    errors: list[ErrorCode | None]
    """For each partition why it does not exist; None where it does. Judged once: topics may come and go meanwhile."""


@api(8, versions=(2, 10))
async def offset_commit(context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    image, turns = context.image, Turns()
    asked = [_look_up(image, topic) async for topic in turns(request.topics)]
    offsets = [
        OffsetToCommit(
            name,
            partition.partition_index,
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata or "",
        )
        for topic, name, errors in asked
        async for partition, error in turns(zip(topic.partitions, errors, strict=True))
        if error is None
    ]
    following = iter(await _commit(context, request, offsets))
    return OffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple(
            [
                OffsetCommitResponseTopic(
                    topic_id=topic.topic_id,
                    name=_asked_name(topic),
                    partitions=tuple(
                        [
                            OffsetCommitResponsePartition(
                                partition_index=partition.partition_index,
                                error_code=next(following) if error is None else error,
                            )
                            async for partition, error in turns(zip(topic.partitions, errors, strict=True))
                        ]
                    ),
                )
                async for topic, _, errors in turns(asked)
            ]
        ),
    )


async def _commit(
    context: RequestContext, request: OffsetCommitRequest, offsets: list[OffsetToCommit]
) -> list[ErrorCode]:
    """The outcome for each offset. Without any the group is still asked: so a member shows that it lives."""
    slices = [offsets[start : start + _OFFSETS_A_BATCH] for start in range(0, len(offsets), _OFFSETS_A_BATCH)]
    outcomes = await gather_in_turns((_commit_slice(context, request, some) for some in slices or [[]]), at_once=5)
    return [outcome for some in outcomes for outcome in some]


async def _commit_slice(
    context: RequestContext, request: OffsetCommitRequest, offsets: list[OffsetToCommit]
) -> list[ErrorCode]:
    try:
        return await context.services.groups.commit(
            request.group_id,
            request.generation_id_or_member_epoch,
            request.member_id,
            request.group_instance_id,
            offsets,
            context.header.api_version,
        )
    except ApiError as error:
        return [error.code] * len(offsets)


def _asked_name(topic: TopicAsked) -> TopicName | None:
    name: TopicName | None = getattr(topic, "name", None)
    return name


def _look_up(image: MetadataImage, topic: TopicAsked) -> _Asked:
    name = _asked_name(topic)
    if name is None:
        found = None if topic.topic_id is None else image.topics_by_id.get(topic.topic_id)
        if found is None:
            return _Asked(topic, "", [ErrorCode.unknown_topic_id] * len(topic.partitions))
        name = TopicName(found.name)
    exists = [image.partition(name, partition.partition_index) is not None for partition in topic.partitions]
    return _Asked(topic, name, [None if one else ErrorCode.unknown_topic_or_partition for one in exists])
