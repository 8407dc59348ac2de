"""For which partitions a share group has share state: made before anybody reads them, and deleted with the group.

The state itself lies with another coordinator, so each change takes two records: one before that is asked, and one when it
has answered. What a crash leaves in between is asked for again by a later heartbeat.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.cluster.metadata import MetadataImage
from catchment.coordination.groups.modern import NO_PARTITIONS, PartitionsByTopic
from catchment.coordination.groups.share.commands import ShareGroupLimits
from catchment.coordination.groups.share.group import ShareGroup, StatePartitions, StateTopic
from catchment.coordination.groups.share.records import Draft, ShareGroups
from catchment.coordination.groups.state import ShardState
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError

Reply = Callable[[ErrorCode], None]


class Initialization:
    __slots__ = ("_asked_ms", "_groups", "_state", "_terms")

    def __init__(self, state: ShardState, groups: ShareGroups, terms: ShareGroupLimits) -> None:
        self._state = state
        self._groups = groups
        self._terms = terms
        self._asked_ms: dict[str, int] = {}
        """When each group has last asked for state. It is volatile: after a restart every group asks again."""

    def begin(self, draft: Draft, image: MetadataImage, now: Moment) -> PartitionsByTopic:
        """Note the subscribed partitions that have no state yet; which of them to initialise now."""
        group = draft.group
        if group.is_checked(image) and not group.partitions.initializing:
            return NO_PARTITIONS
        asked_ms = self._asked_ms.get(group.group_id)
        is_time = asked_ms is None or now.monotonic_ms - asked_ms >= self._terms.initialize_retry_ms
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
        self._asked_ms[group.group_id] = now.monotonic_ms
        self._note_initializing(draft, missing)
        return {topic_id: topic.partitions for topic_id, topic in missing.items()}

    def finish(self, group_id: str, partitions: PartitionsByTopic, reply: Reply, *, has_failed: bool) -> None:
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

    def begin_deleting(self, group_id: str, reply: Callable[[PartitionsByTopic | ApiError], None]) -> None:
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


class ShareGroupOffsets:
    __slots__ = ("_groups", "_state")

    def __init__(self, state: ShardState, groups: ShareGroups) -> None:
        self._state = state
        self._groups = groups

    def initialized(self, group_id: str) -> Mapping[UUID, StateTopic]:
        """The partitions that have state; a group that does not exist has none."""
        group = self._groups.by_id.get(group_id)
        return {} if group is None else group.partitions.initialized

    def concerned_with(self, topic: str, topic_id: UUID) -> list[str]:
        """The groups that have state of the topic, are about to, or whose members subscribe to it."""
        return [
            group.group_id
            for group in self._groups.by_id.values()
            if topic_id in group.partitions.initialized
            or topic_id in group.partitions.initializing
            or topic in group.topics
        ]

    def begin_alter(self, group_id: str, topics: Mapping[UUID, StateTopic], reply: Reply) -> int:
        """Note that the partitions are to begin anew, in the epoch returned; the group is made if it does not exist."""
        group = self._groups.find_or_draft(group_id)
        _check_empty(group)
        known = group.partitions
        noted = StatePartitions(
            initializing=_joined(known.initializing, topics),
            initialized=known.initialized,
            deleting={topic_id: name for topic_id, name in known.deleting.items() if topic_id not in topics},
        )
        self._note(group, noted, reply)
        return group.epoch

    def finish_alter(self, group_id: str, done: Mapping[UUID, StateTopic], reply: Reply) -> None:
        """The state of these partitions has begun anew."""
        group = self._groups.find(group_id)
        known = group.partitions
        noted = StatePartitions(
            initializing=_without(known.initializing, {topic_id: topic.partitions for topic_id, topic in done.items()}),
            initialized=_joined(known.initialized, done),
            deleting=known.deleting,
        )
        self._note(group, noted, reply)

    def begin_delete(self, group_id: str, topics: Mapping[UUID, StateTopic], reply: Reply) -> PartitionsByTopic:
        """Note that the state of these topics is to go, and say what there is of it; topics come with all their partitions."""
        group = self._groups.find(group_id)
        _check_empty(group)
        known = group.partitions
        begun = {
            topic_id: known.initialized.get(topic_id, topic)
            for topic_id, topic in topics.items()
            # One whose deletion has stopped half-way is deleted again, whatever is left of it.
            if topic_id in known.initialized or topic_id in known.deleting
        }
        noted = StatePartitions(
            initializing=known.initializing,
            initialized={key: topic for key, topic in known.initialized.items() if key not in begun},
            deleting={**known.deleting, **{topic_id: topic.name for topic_id, topic in begun.items()}},
        )
        self._note(group, noted, reply)
        return {topic_id: topic.partitions for topic_id, topic in begun.items()}

    def finish_delete(self, group_id: str, topic_ids: AbstractSet[UUID], reply: Reply) -> None:
        """The state of these topics is gone."""
        group = self._groups.find(group_id)
        deleting = {key: name for key, name in group.partitions.deleting.items() if key not in topic_ids}
        self._note(group, group.partitions._replace(deleting=deleting), reply)

    def _note(self, group: ShareGroup, noted: StatePartitions, reply: Reply) -> None:
        if noted == group.partitions:
            reply(ErrorCode.none)
            return
        draft = Draft(group)
        draft.put_partitions(noted)
        self._state.write(
            draft.records, committed=lambda _: reply(ErrorCode.none), failed=lambda error, _: reply(error)
        )


def _check_empty(group: ShareGroup) -> None:
    if not group.is_empty:
        raise ApiError(ErrorCode.non_empty_group, "The group is not empty.")


def _joined(known: Mapping[UUID, StateTopic], more: Mapping[UUID, StateTopic]) -> dict[UUID, StateTopic]:
    joined = dict(known)
    for topic_id, topic in more.items():
        older = known.get(topic_id)
        joined[topic_id] = topic if older is None else StateTopic(topic.name, older.partitions | topic.partitions)
    return joined


def _without(known: Mapping[UUID, StateTopic], gone: PartitionsByTopic) -> dict[UUID, StateTopic]:
    left = {
        topic_id: StateTopic(topic.name, topic.partitions - gone.get(topic_id, frozenset()))
        for topic_id, topic in known.items()
    }
    return {topic_id: topic for topic_id, topic in left.items() if topic.partitions}
