"""The partitions for which a share group has share state, and changes of the group's offsets.

Share state is initialized before a partition is assigned, and deleted with the group. The share coordinator holds it, so each
change takes two records here: one before the request to that coordinator, and one after its response. A later heartbeat
repeats a request that a crash interrupted.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.cluster.metadata import MetadataImage
from catchment.coordination.groups.modern import NO_PARTITIONS, PartitionsByTopic
from catchment.coordination.groups.share.group import ShareGroup, ShareGroupLimits, StatePartitions, StateTopic
from catchment.coordination.groups.share.records import Draft, ShareGroups
from catchment.coordination.groups.state import ShardState
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError

Reply = Callable[[ErrorCode], None]


class Initialization:
    __slots__ = ("_groups", "_requested_ms", "_state", "_terms")

    def __init__(self, state: ShardState, groups: ShareGroups, terms: ShareGroupLimits) -> None:
        self._state = state
        self._groups = groups
        self._terms = terms
        self._requested_ms: dict[str, int] = {}
        """When each group last requested initialization. This is volatile: after a restart every group requests it again."""

    def begin(self, draft: Draft, image: MetadataImage, now: Moment) -> PartitionsByTopic:
        """Record the subscribed partitions that have no state yet, and return those to initialize now."""
        group = draft.group
        if group.is_checked(image) and not group.partitions.initializing:
            return NO_PARTITIONS
        requested_ms = self._requested_ms.get(group.group_id)
        is_time = requested_ms is None or now.monotonic_ms - requested_ms >= self._terms.initialize_retry_ms
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
        self._requested_ms[group.group_id] = now.monotonic_ms
        initializing, initialized, deleting = group.partitions
        merged = _joined(initializing, missing)
        if merged != initializing:
            draft.put_partitions(StatePartitions(merged, initialized, deleting))
        return {topic_id: topic.partitions for topic_id, topic in missing.items()}

    def finish(self, group_id: str, partitions: PartitionsByTopic, reply: Reply, *, has_failed: bool) -> None:
        """Record that the partitions are initialized. If that failed, the next heartbeat requests it again."""
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
            self._requested_ms.pop(group_id, None)
        remaining = {topic_id: topic for topic_id, topic in left.items() if topic.partitions}
        _put(self._state, group, StatePartitions(remaining, made, deleting), reply)

    def begin_deleting(self, group_id: str, reply: Callable[[PartitionsByTopic | ApiError], None]) -> None:
        """Record that all state of an empty group is to be deleted, and reply with its partitions."""
        try:
            group = self._groups.find(group_id)
            _check_empty(group)
        except ApiError as error:
            reply(error)
            return
        initializing, initialized, deleting = group.partitions
        names = {**deleting, **{id_: topic.name for id_, topic in (*initializing.items(), *initialized.items())}}
        topics = self._state.image.topics_by_id
        partitions = {id_: frozenset(range(len(topics[id_].partitions))) for id_ in names if id_ in topics}
        _put(
            self._state,
            group,
            StatePartitions(deleting=names),
            lambda error: reply(partitions if error is ErrorCode.none else ApiError(error)),
        )

    def delete_group(self, group_id: str, reply: Reply) -> None:
        """Delete an empty group whose state is deleted."""
        group = self._groups.by_id.get(group_id)
        if group is None:
            reply(ErrorCode.group_id_not_found)
            return
        if not group.is_empty or group.partitions.initializing or group.partitions.initialized:
            # A member has joined and left since the deletion began: this shard may have been loaded meanwhile.
            reply(ErrorCode.non_empty_group)
            return
        self._requested_ms.pop(group_id, None)
        self._state.write(
            group.tombstones(), committed=lambda _: reply(ErrorCode.none), failed=lambda error, _: reply(error)
        )

    def stop_deleting(self, group_id: str) -> None:
        """Cancel the deletion of a group: a member has joined, or its state could not be deleted."""
        group = self._groups.by_id.get(group_id)
        if group is not None:
            _put(self._state, group, group.partitions._replace(deleting={}), lambda _: None)

    def stop_all_deleting(self) -> None:
        """Cancel the deletions that were in progress when the shard was unloaded."""
        for group_id in self._groups.by_id:
            self.stop_deleting(group_id)

    def remove_topics(self, topic_ids: frozenset[UUID]) -> None:
        """Remove the partitions of deleted topics, whose state is deleted too."""
        for group in self._groups.by_id.values():
            initializing, initialized, deleting = group.partitions
            if topic_ids & (initializing.keys() | initialized.keys() | deleting.keys()):
                kept = StatePartitions(
                    {topic_id: topic for topic_id, topic in initializing.items() if topic_id not in topic_ids},
                    {topic_id: topic for topic_id, topic in initialized.items() if topic_id not in topic_ids},
                    {topic_id: name for topic_id, name in deleting.items() if topic_id not in topic_ids},
                )
                _put(self._state, group, kept, lambda _: None)


def _numbers(topics: Mapping[UUID, StateTopic], topic_id: UUID) -> frozenset[int]:
    topic = topics.get(topic_id)
    return frozenset() if topic is None else topic.partitions


class ShareGroupOffsets:
    """Alters and deletes the offsets of a share group, in two steps: before and after the share state is changed."""

    __slots__ = ("_groups", "_state")

    def __init__(self, state: ShardState, groups: ShareGroups) -> None:
        self._state = state
        self._groups = groups

    def initialized(self, group_id: str) -> Mapping[UUID, StateTopic]:
        """The initialized partitions; none for a group that does not exist."""
        group = self._groups.by_id.get(group_id)
        return {} if group is None else group.partitions.initialized

    def interested_in(self, topic: str, topic_id: UUID) -> list[str]:
        """The groups that have share state of the topic, are initializing it, or subscribe to it."""
        return [
            group.group_id
            for group in self._groups.by_id.values()
            if topic_id in group.partitions.initialized
            or topic_id in group.partitions.initializing
            or topic in group.topics
        ]

    def begin_alter(self, group_id: str, topics: Mapping[UUID, StateTopic], reply: Reply) -> int:
        """Record that the partitions are to be initialized in the returned epoch. The group is created if necessary."""
        group = self._groups.find_or_draft(group_id)
        _check_empty(group)
        known = group.partitions
        changed = StatePartitions(
            initializing=_joined(known.initializing, topics),
            initialized=known.initialized,
            deleting={topic_id: name for topic_id, name in known.deleting.items() if topic_id not in topics},
        )
        _put(self._state, group, changed, reply)
        return group.epoch

    def finish_alter(self, group_id: str, done: Mapping[UUID, StateTopic], reply: Reply) -> None:
        """Record that these partitions are initialized."""
        group = self._groups.find(group_id)
        known = group.partitions
        changed = StatePartitions(
            initializing=_without(known.initializing, {topic_id: topic.partitions for topic_id, topic in done.items()}),
            initialized=_joined(known.initialized, done),
            deleting=known.deleting,
        )
        _put(self._state, group, changed, reply)

    def begin_delete(self, group_id: str, topics: Mapping[UUID, StateTopic], reply: Reply) -> PartitionsByTopic:
        """Record that the state of these topics is to be deleted, and return the partitions that have state.

        The given topics have all their partitions.
        """
        group = self._groups.find(group_id)
        _check_empty(group)
        known = group.partitions
        existing = {
            topic_id: known.initialized.get(topic_id, topic)
            for topic_id, topic in topics.items()
            # A topic whose deletion was interrupted is deleted again, whatever is left of it.
            if topic_id in known.initialized or topic_id in known.deleting
        }
        changed = StatePartitions(
            initializing=known.initializing,
            initialized={key: topic for key, topic in known.initialized.items() if key not in existing},
            deleting={**known.deleting, **{topic_id: topic.name for topic_id, topic in existing.items()}},
        )
        _put(self._state, group, changed, reply)
        return {topic_id: topic.partitions for topic_id, topic in existing.items()}

    def finish_delete(self, group_id: str, topic_ids: AbstractSet[UUID], reply: Reply) -> None:
        """Record that the state of these topics is deleted."""
        group = self._groups.find(group_id)
        deleting = {key: name for key, name in group.partitions.deleting.items() if key not in topic_ids}
        _put(self._state, group, group.partitions._replace(deleting=deleting), reply)


def _put(state: ShardState, group: ShareGroup, partitions: StatePartitions, reply: Reply) -> None:
    """Write the partitions if they have changed, and reply once that is committed."""
    if partitions == group.partitions:
        reply(ErrorCode.none)
        return
    draft = Draft(group)
    draft.put_partitions(partitions)
    state.write(draft.records, committed=lambda _: reply(ErrorCode.none), failed=lambda error, _: reply(error))


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
