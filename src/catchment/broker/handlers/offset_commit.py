"""OffsetCommit (key 8): store the offsets up to which a group has consumed.

Behaviour
    The response is sent once the offsets are durable in the log. An unknown partition and metadata that is too long fail for
    their partition alone; a wrong generation or member fails all partitions. While a group has no members, any client may commit
    with generation -1. A member of a consumer group commits with its epoch; with an older epoch it may commit only the partitions
    that it already owned then (KIP-1251). Offsets are written in batches of at most 200.
Versions
    2-10. Retention times (2-4) are ignored, as Kafka has done since 2.1 (KIP-211). Instance ids since 7, member epochs
    since 9, topic ids since 10.
Gaps
    None.
"""

from collections.abc import Iterator
from typing import NamedTuple

from kio.schema.errors import ErrorCode
from kio.schema.offset_commit.v10.request import OffsetCommitRequest
from kio.schema.offset_commit.v10.request import OffsetCommitRequestTopic as RequestTopic
from kio.schema.offset_commit.v10.response import OffsetCommitResponse, OffsetCommitResponsePartition
from kio.schema.types import TopicName

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns, gather_in_turns
from catchment.cluster.metadata import MetadataImage
from catchment.coordination.groups.offset_commands import CommitRequest
from catchment.coordination.groups.records import OffsetToCommit
from catchment.protocol.adapters.offset_commit import OffsetCommitResponseTopic
from catchment.protocol.errors import ApiError

_OFFSETS_PER_BATCH = 200
"""As many as fit into a batch of the offsets topic if each has the longest metadata, and as the event loop can take in one step."""
_BATCHES_AT_ONCE = 5


class _Topic(NamedTuple):
    """A topic of the request, resolved against one image: topics may be created and deleted while the offsets are written."""

    asked: RequestTopic
    name: str
    errors: list[ErrorCode | None]
    """The error of each partition that does not exist, None for one that does."""


@api(8, versions=(2, 10))
async def offset_commit(context: RequestContext, request: OffsetCommitRequest) -> OffsetCommitResponse:
    image, turns = context.image, Turns()
    topics = [_resolve(image, topic) async for topic in turns(request.topics)]
    offsets = [
        OffsetToCommit(
            topic.name,
            partition.partition_index,
            partition.committed_offset,
            partition.committed_leader_epoch,
            partition.committed_metadata or "",
        )
        for topic in topics
        async for partition, error in turns(zip(topic.asked.partitions, topic.errors, strict=True))
        if error is None
    ]
    outcomes = iter(await _commit(context, request, offsets))
    return OffsetCommitResponse(
        throttle_time=NO_THROTTLE,
        topics=tuple([await _response_topic(topic, outcomes, turns) async for topic in turns(topics)]),
    )


def _resolve(image: MetadataImage, topic: RequestTopic) -> _Topic:
    name = _requested_name(topic)
    if name is None:
        found = None if topic.topic_id is None else image.topics_by_id.get(topic.topic_id)
        if found is None:
            return _Topic(topic, "", [ErrorCode.unknown_topic_id] * len(topic.partitions))
        name = TopicName(found.name)
    exists = [image.partition(name, partition.partition_index) is not None for partition in topic.partitions]
    return _Topic(topic, name, [None if one else ErrorCode.unknown_topic_or_partition for one in exists])


def _requested_name(topic: RequestTopic) -> TopicName | None:
    name: TopicName | None = getattr(topic, "name", None)
    return name


async def _commit(
    context: RequestContext, request: OffsetCommitRequest, offsets: list[OffsetToCommit]
) -> list[ErrorCode]:
    """The outcome for each offset. A commit without offsets still reaches the group: it counts as a heartbeat of the member."""
    batches = [offsets[start : start + _OFFSETS_PER_BATCH] for start in range(0, len(offsets), _OFFSETS_PER_BATCH)]
    outcomes = await gather_in_turns(
        (_commit_batch(context, request, batch) for batch in batches or [[]]), at_once=_BATCHES_AT_ONCE
    )
    return [outcome for batch in outcomes for outcome in batch]


async def _commit_batch(
    context: RequestContext, request: OffsetCommitRequest, offsets: list[OffsetToCommit]
) -> list[ErrorCode]:
    try:
        return await context.services.groups.commit(
            CommitRequest(
                request.group_id,
                request.generation_id_or_member_epoch,
                request.member_id,
                request.group_instance_id,
                offsets,
                version=context.header.api_version,
            )
        )
    except ApiError as error:
        return [error.code] * len(offsets)


async def _response_topic(topic: _Topic, outcomes: Iterator[ErrorCode], turns: Turns) -> OffsetCommitResponseTopic:
    """Merge the errors of partitions that do not exist with the outcomes of the others, which follow in the same order."""
    return OffsetCommitResponseTopic(
        topic_id=topic.asked.topic_id,
        name=_requested_name(topic.asked),
        partitions=tuple(
            [
                OffsetCommitResponsePartition(
                    partition_index=partition.partition_index, error_code=next(outcomes) if error is None else error
                )
                async for partition, error in turns(zip(topic.asked.partitions, topic.errors, strict=True))
            ]
        ),
    )
