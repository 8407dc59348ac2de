"""Setting and deleting the offsets of a share group: what the group notes before and after the state itself is changed.

The state of share-partitions is kept elsewhere, so a change has two steps here. Before it, the group notes which partitions
are to be initialised or deleted; after it, that they are. Whatever stops in between is seen in the group's record.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.coordination.shard_state import ShardState
from catchment.coordination.share_groups.group import Partitions, ShareGroup, StatePartitions, StateTopic
from catchment.coordination.share_groups.store import Draft, ShareGroups
from catchment.protocol.errors import ApiError

Reply = Callable[[ErrorCode], None]


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

    def begin_delete(self, group_id: str, topics: Mapping[UUID, StateTopic], reply: Reply) -> Partitions:
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


def _without(known: Mapping[UUID, StateTopic], gone: Partitions) -> dict[UUID, StateTopic]:
    left = {
        topic_id: StateTopic(topic.name, topic.partitions - gone.get(topic_id, frozenset()))
        for topic_id, topic in known.items()
    }
    return {topic_id: topic for topic_id, topic in left.items() if topic.partitions}
