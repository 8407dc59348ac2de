"""OffsetFetch (key 9): the committed offsets of groups.

Behaviour
    Offset -1 means that nothing is committed; a group that does not exist has committed nothing. Null topics mean all. The response
    is sent once the offsets in it are durable. With `require_stable`, a partition with a pending offset of an open transaction
    gets UNSTABLE_OFFSET_COMMIT, and the client retries (KIP-447).
Versions
    1-10. All topics since 2, `require_stable` since 7, many groups since 8 (KIP-709). The member and its epoch since 9; they are
    checked for consumer groups (KIP-848). Topic ids since 10.
Gaps
    None.
"""

from collections.abc import AsyncIterator, Mapping
from itertools import groupby

from kio.schema.errors import ErrorCode
from kio.schema.offset_fetch.v10.request import OffsetFetchRequest, OffsetFetchRequestGroup
from kio.schema.offset_fetch.v10.request import OffsetFetchRequestTopics as TopicAsked
from kio.schema.offset_fetch.v10.response import (
    OffsetFetchResponse,
    OffsetFetchResponseGroup,
    OffsetFetchResponsePartitions,
)
from kio.schema.types import TopicName
from kio.static.primitive import i32, i64

from catchment.broker.context import NO_THROTTLE, RequestContext
from catchment.broker.network.routing import api
from catchment.broker.turns import Turns
from catchment.coordination.groups.offsets import TopicPartition
from catchment.coordination.groups.records import CommittedOffset
from catchment.protocol.adapters.offset_fetch import OffsetFetchResponseTopics
from catchment.protocol.errors import ApiError

_FIRST_WITH_IDS = 10
_NOTHING = CommittedOffset(offset=-1, leader_epoch=-1, metadata="", commit_time_ms=-1)

Committed = Mapping[TopicPartition, CommittedOffset]
Unstable = frozenset[TopicPartition]


@api(9, versions=(1, 10))
async def offset_fetch(context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    turns, requires_stable = Turns(), request.require_stable
    groups = [
        await _group(context, group, turns, requires_stable=requires_stable) async for group in turns(request.groups)
    ]
    return OffsetFetchResponse(throttle_time=NO_THROTTLE, groups=tuple(groups))


async def _group(
    context: RequestContext, asked: OffsetFetchRequestGroup, turns: Turns, *, requires_stable: bool
) -> OffsetFetchResponseGroup:
    error_code = ErrorCode.none
    committed: Committed = {}
    unstable: Unstable = frozenset()
    try:
        if requires_stable:
            # Read in the same step as the offsets, so that no transaction can end in between.
            unstable = context.services.groups.pending_offsets(asked.group_id)
        committed = await context.services.groups.offsets(asked.group_id, asked.member_id, asked.member_epoch)
    except ApiError as error:
        error_code = error.code
    if asked.topics is None:
        topics = tuple([topic async for topic in _all_topics(context, committed, unstable, turns)])
    else:
        topics = tuple(
            [await _topic(context, topic, committed, unstable, turns) async for topic in turns(asked.topics)]
        )
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics, error_code=error_code)


async def _all_topics(
    context: RequestContext, committed: Committed, unstable: Unstable, turns: Turns
) -> AsyncIterator[OffsetFetchResponseTopics]:
    """Every topic with an offset; without deleted topics for clients that use topic ids."""
    for name, partitions in groupby(sorted(committed), key=lambda partition: partition[0]):
        topic = context.image.topics.get(name)
        if topic is None and context.header.api_version >= _FIRST_WITH_IDS:
            continue
        yield OffsetFetchResponseTopics(
            topic_id=None if topic is None else topic.id,
            name=TopicName(name),
            partitions=tuple([_partition(committed, unstable, name, number) async for _, number in turns(partitions)]),
        )


async def _topic(
    context: RequestContext, asked: TopicAsked, committed: Committed, unstable: Unstable, turns: Turns
) -> OffsetFetchResponseTopics:
    name: TopicName | None = getattr(asked, "name", None)
    error_code = ErrorCode.none
    if name is None:
        known = context.image.topics_by_id.get(asked.topic_id) if asked.topic_id is not None else None
        if known is None:
            error_code = ErrorCode.unknown_topic_id
        else:
            name = TopicName(known.name)
    return OffsetFetchResponseTopics(
        topic_id=asked.topic_id,
        name=name,
        partitions=tuple(
            [
                _partition(committed, unstable, name or "", number, error_code)
                async for number in turns(asked.partition_indexes)
            ]
        ),
    )


def _partition(
    offsets: Committed, unstable: Unstable, name: str, number: int, error_code: ErrorCode = ErrorCode.none
) -> OffsetFetchResponsePartitions:
    committed = offsets.get((name, number), _NOTHING)
    if (name, number) in unstable:
        committed, error_code = _NOTHING, ErrorCode.unstable_offset_commit
    return OffsetFetchResponsePartitions(
        partition_index=i32(number),
        committed_offset=i64(committed.offset),
        committed_leader_epoch=i32(committed.leader_epoch),
        metadata=committed.metadata,
        error_code=error_code,
    )
