"""Alter and delete the offsets of share groups: the group and the states of its partitions change one after the other.

The group first records the intent, then the states change, then the group records the completion. A change that fails in between
stays recorded as incomplete, and a retry finishes it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.broker.context import Services
from catchment.cluster.metadata import TopicImage
from catchment.coordination.groups.shard import GroupShard
from catchment.coordination.groups.share.group import StateTopic
from catchment.coordination.groups.share.state_partitions import Reply, ShareGroupOffsets
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError

Result = TypeVar("Result")
SharePartition = tuple[UUID, int]
Failures = dict[SharePartition, ApiError]


async def initialized(services: Services, group_id: str) -> Mapping[UUID, StateTopic]:
    """The partitions for which the group has a state."""
    return await services.groups.runtime.read(
        group_id, lambda shard, _: shard.share_groups.offsets.initialized(group_id)
    )


async def alter(services: Services, group_id: str, starts: Mapping[SharePartition, int]) -> Failures:
    """Reset the group to the given offsets; the partitions that failed. ApiError if the group does not allow it."""
    topics = _state_topics(services, starts)
    epoch = await _record(services, group_id, lambda offsets, reply: offsets.begin_alter(group_id, topics, reply))
    failures = await _failures(
        {
            (topic_id, number): services.share_state.initialize(group_id, topic_id, number, epoch, start_offset)
            for (topic_id, number), start_offset in starts.items()
        }
    )
    done = _state_topics(services, [partition for partition in starts if partition not in failures])
    await _record(services, group_id, lambda offsets, reply: offsets.finish_alter(group_id, done, reply))
    return failures


async def delete(services: Services, group_id: str, topics: Iterable[TopicImage]) -> dict[UUID, ApiError]:
    """Delete the group's offsets of topics; the topics that failed. ApiError if the group does not allow it."""
    asked = {topic.id: StateTopic(topic.name, frozenset(range(len(topic.partitions)))) for topic in topics}
    begun = await _record(services, group_id, lambda offsets, reply: offsets.begin_delete(group_id, asked, reply))
    failed = await _failures(
        {
            (topic_id, number): services.share_state.delete(group_id, topic_id, number)
            for topic_id, numbers in begun.items()
            for number in sorted(numbers)
        }
    )
    failures = {topic_id: error for (topic_id, _), error in failed.items()}
    gone = begun.keys() - failures.keys()
    await _record(services, group_id, lambda offsets, reply: offsets.finish_delete(group_id, gone, reply))
    nothing = ApiError(ErrorCode.unknown_topic_or_partition, "The group has no offsets for this topic.")
    return failures | {topic_id: nothing for topic_id in asked if topic_id not in begun}


async def _record(services: Services, group_id: str, command: Callable[[ShareGroupOffsets, Reply], Result]) -> Result:
    """Run a command of the group; its result, once its record is durable."""
    results: list[Result] = []

    def run(shard: GroupShard, _: Moment, reply: Reply) -> None:
        results.append(command(shard.share_groups.offsets, reply))

    error = await services.groups.runtime.ask(group_id, run)
    if error is not ErrorCode.none:
        raise ApiError(error)
    return results[0]


async def _failures(changes: Mapping[SharePartition, Awaitable[None]]) -> Failures:
    outcomes = await asyncio.gather(*changes.values(), return_exceptions=True)
    failures: Failures = {}
    for partition, outcome in zip(changes, outcomes, strict=True):
        if isinstance(outcome, ApiError):
            failures[partition] = outcome
        elif outcome is not None:
            raise outcome
    return failures


def _state_topics(services: Services, partitions: Iterable[SharePartition]) -> dict[UUID, StateTopic]:
    topics: dict[UUID, StateTopic] = {}
    known = services.controller.image.topics_by_id
    for topic_id, number in partitions:
        image = known.get(topic_id)
        if image is not None:
            before = topics.get(topic_id, StateTopic(image.name, frozenset()))
            topics[topic_id] = StateTopic(image.name, before.partitions | {number})
    return topics
