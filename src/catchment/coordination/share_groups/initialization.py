"""For which partitions a share group has share state: made before anybody reads them, and deleted with the group.

The state itself lies with another coordinator, so each change takes two records: one before that is asked, and one when it
has answered. What a crash leaves in between is asked for again by a later heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.cluster.metadata import MetadataImage
from catchment.coordination.shard_state import ShardState
from catchment.coordination.share_groups.commands import ShareTerms
from catchment.coordination.share_groups.group import NO_PARTITIONS, Partitions, ShareGroup, StatePartitions, StateTopic
from catchment.coordination.share_groups.store import Draft, ShareGroups
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError

Reply = Callable[[ErrorCode], None]


class Initialization:
    __slots__ = ("_asked_ms", "_groups", "_state", "_terms")

    def __init__(self, state: ShardState, groups: ShareGroups, terms: ShareTerms) -> None:
        self._state = state
        self._groups = groups
        self._terms = terms
        self._asked_ms: dict[str, int] = {}
        """When each group has last asked for state. It is volatile: after a restart every group asks again."""

    def begin(self, draft: Draft, image: MetadataImage, now: Moment) -> Partitions:
        """Note the subscribed partitions that have no state yet; which of them to initialise now."""
        group = draft.group
        if group.is_checked(image) and not group.partitions.initializing:
            return NO_PARTITIONS
        asked_ms = self._asked_ms.get(group.group_id)
        is_time = asked_ms is None or now.steady_ms - asked_ms >= self._terms.initialize_retry_ms
        missing: dict[UUID, StateTopic] = {}
        for name in sorted(group.topics):
            topic = image.topics.get(name)
            if topic is not None and topic.id not in group.partitions.deleting:
                absent = frozenset(range(len(topic.partitions))) - _numbers(group.partitions.initialized, topic.id)
                if not is_time:
                    absent -= _numbers(group.partitions.initializing, topic.id)
                if absent:
                    missing[topic.id] = StateTopic(name, absent)
        if not missing:
            return NO_PARTITIONS
        self._asked_ms[group.group_id] = now.steady_ms
        self._note_initializing(draft, missing)
        return {topic_id: topic.partitions for topic_id, topic in missing.items()}

    def finish(self, group_id: str, partitions: Partitions, reply: Reply, *, has_failed: bool) -> None:
        """The partitions have their state now, or it could not be made: then the next heartbeat asks again."""
        group = self._groups.by_id.get(group_id)
        if group is None:
            reply(ErrorCode.group_id_not_found)
            return
        initializing, initialized, deleting = group.partitions
        left, made = dict(initializing), dict(initialized)
        for topic_id, numbers in partitions.items():
            topic = initializing.get(topic_id)
            if topic is not None:
                made[topic_id] = StateTopic(topic.name, _numbers(initialized, topic_id) | (topic.partitions & numbers))
                left[topic_id] = StateTopic(topic.name, topic.partitions - numbers)
        if has_failed:
            made = dict(initialized)
            self._asked_ms.pop(group_id, None)
        remaining = {topic_id: topic for topic_id, topic in left.items() if topic.partitions}
        self._put(group, StatePartitions(remaining, made, deleting), reply)

    def begin_deleting(self, group_id: str, reply: Callable[[Partitions | ApiError], None]) -> None:
        """Note that all state of an empty group goes; the partitions whose state to delete."""
        try:
            group = self._groups.find(group_id)
            if not group.is_empty:
                raise ApiError(ErrorCode.non_empty_group, "The group is not empty.")
        except ApiError as error:
            reply(error)
            return
        initializing, initialized, deleting = group.partitions
        names = {**deleting, **{id_: topic.name for id_, topic in (*initializing.items(), *initialized.items())}}
        topics = self._state.image.topics_by_id
        doomed = {id_: frozenset(range(len(topics[id_].partitions))) for id_ in names if id_ in topics}
        self._put(
            group,
            StatePartitions(deleting=names),
            lambda error: reply(doomed if error is ErrorCode.none else ApiError(error)),
        )

    def delete_group(self, group_id: str, reply: Reply) -> None:
        """Delete an empty group whose state is gone."""
        group = self._groups.by_id.get(group_id)
        if group is None:
            reply(ErrorCode.group_id_not_found)
            return
        if not group.is_empty or group.partitions.initializing or group.partitions.initialized:
            # A member has come and gone since the deletion began: this shard may have been loaded meanwhile.
            reply(ErrorCode.non_empty_group)
            return
        self._asked_ms.pop(group_id, None)
        self._state.write(
            group.tombstones(), committed=lambda _: reply(ErrorCode.none), failed=lambda error, _: reply(error)
        )

    def stop_deleting(self, group_id: str) -> None:
        """The group was not deleted after all: somebody has joined, or its state could not be deleted."""
        group = self._groups.by_id.get(group_id)
        if group is not None:
            self._put(group, group.partitions._replace(deleting={}), lambda _: None)

    def stop_all_deleting(self) -> None:
        """Whoever was deleting when the log ended is gone."""
        for group_id in self._groups.by_id:
            self.stop_deleting(group_id)

    def forget_topics(self, topic_ids: frozenset[UUID]) -> None:
        """Topics were deleted, and with them all state of their partitions."""
        for group in self._groups.by_id.values():
            initializing, initialized, deleting = group.partitions
            if topic_ids & (initializing.keys() | initialized.keys() | deleting.keys()):
                kept = StatePartitions(
                    {topic_id: topic for topic_id, topic in initializing.items() if topic_id not in topic_ids},
                    {topic_id: topic for topic_id, topic in initialized.items() if topic_id not in topic_ids},
                    {topic_id: name for topic_id, name in deleting.items() if topic_id not in topic_ids},
                )
                self._put(group, kept, lambda _: None)

    def _note_initializing(self, draft: Draft, topics: Mapping[UUID, StateTopic]) -> None:
        initializing, initialized, deleting = draft.group.partitions
        merged = dict(initializing)
        for topic_id, topic in topics.items():
            merged[topic_id] = StateTopic(topic.name, topic.partitions | _numbers(initializing, topic_id))
        if merged != initializing:
            draft.put_partitions(StatePartitions(merged, initialized, deleting))

    def _put(self, group: ShareGroup, partitions: StatePartitions, reply: Reply) -> None:
        if partitions == group.partitions:
            reply(ErrorCode.none)
            return
        draft = Draft(group)
        draft.put_partitions(partitions)
        self._state.write(
            draft.records, committed=lambda _: reply(ErrorCode.none), failed=lambda error, _: reply(error)
        )


def _numbers(topics: Mapping[UUID, StateTopic], topic_id: UUID) -> frozenset[int]:
    topic = topics.get(topic_id)
    return frozenset() if topic is None else topic.partitions
