"""OffsetFetch (key 9): how far groups have come.

Behaviour
    Offset -1 means that nothing is committed; a group that does not exist has committed nothing. Null instead of topics asks
    for all. The answer waits until what it says cannot be lost.
Versions
    1-10. All topics from 2 on, `require_stable` from 7 on, many groups from 8 on (KIP-709), topic ids from 10 on.
Gaps
    There are no transactions yet, so every offset is stable and `require_stable` changes nothing. The member id and epoch of
    the consumer protocol (KIP-848) are not checked.
"""

from collections.abc import Iterator, Mapping
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

from catchment.broker.answers import NO_THROTTLE
from catchment.broker.context import RequestContext
from catchment.broker.routing import api
from catchment.coordination.group_records import CommittedOffset
from catchment.coordination.offsets import TopicPartition
from catchment.protocol.adapters.offset_fetch import OffsetFetchResponseTopics
from catchment.protocol.errors import ApiError

_FIRST_WITH_IDS = 10
_NOTHING = CommittedOffset(offset=-1, leader_epoch=-1, metadata="", commit_time_ms=-1)

Committed = Mapping[TopicPartition, CommittedOffset]


@api(9, versions=(1, 10))
async def offset_fetch(context: RequestContext, request: OffsetFetchRequest) -> OffsetFetchResponse:
    groups = [await _group(context, group) for group in request.groups]
    return OffsetFetchResponse(throttle_time=NO_THROTTLE, groups=tuple(groups))


async def _group(context: RequestContext, asked: OffsetFetchRequestGroup) -> OffsetFetchResponseGroup:
    error_code = ErrorCode.none
    committed: Committed = {}
    try:
        committed = await context.services.groups.offsets(asked.group_id)
    except ApiError as error:
        error_code = error.code
    if asked.topics is None:
        topics = tuple(_all_topics(context, committed))
    else:
        topics = tuple(_topic(context, topic, committed) for topic in asked.topics)
    return OffsetFetchResponseGroup(group_id=asked.group_id, topics=topics, error_code=error_code)


def _all_topics(context: RequestContext, committed: Committed) -> Iterator[OffsetFetchResponseTopics]:
    """Every topic with an offset; clients that know topics by id hear nothing of those that are gone."""
    for name, partitions in groupby(sorted(committed), key=lambda partition: partition[0]):
        topic = context.image.topics.get(name)
        if topic is None and context.header.api_version >= _FIRST_WITH_IDS:
            continue
        yield OffsetFetchResponseTopics(
            topic_id=None if topic is None else topic.id,
            name=TopicName(name),
            partitions=tuple(_partition(number, committed[name, number]) for _, number in partitions),
        )


def _topic(context: RequestContext, asked: TopicAsked, committed: Committed) -> OffsetFetchResponseTopics:
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
            _partition(number, committed.get((name or "", number), _NOTHING), error_code)
            for number in asked.partition_indexes
        ),
    )


def _partition(
    number: int, committed: CommittedOffset, error_code: ErrorCode = ErrorCode.none
) -> OffsetFetchResponsePartitions:
    return OffsetFetchResponsePartitions(
        partition_index=i32(number),
        committed_offset=i64(committed.offset),
        committed_leader_epoch=i32(committed.leader_epoch),
        metadata=committed.metadata,
        error_code=error_code,
    )
