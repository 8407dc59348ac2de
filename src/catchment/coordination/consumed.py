"""How far the groups of a shard have come with a topic: what retention may take once everybody has it."""

from __future__ import annotations

from collections.abc import Mapping

from catchment.coordination.shard_state import GroupKind, ShardState

Positions = Mapping[int, int]
"""The committed offset of each partition that has one."""


class Consumed:
    __slots__ = ("_state",)

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def positions(self, topic: str) -> dict[str, Positions]:
        """For each group that has to do with the topic, where it stands.

        That is a group that has committed an offset of it, or whose members subscribe to it; one whose subscriptions are
        not known at the moment may. Share groups keep their positions elsewhere.
        """
        found: dict[str, Positions] = {}
        for group_id, group in self._state.groups.items():
            committed = self._committed(group_id, topic)
            topics = group.topics if group.members else frozenset()
            if committed or topics is None or topic in topics:
                found[group_id] = committed
        for group_id, other in self._state.others.items():
            committed = self._committed(group_id, topic)
            if other.kind is not GroupKind.SHARE and (committed or topic in other.topics):
                found[group_id] = committed
        return found

    def _committed(self, group_id: str, topic: str) -> Positions:
        return {
            partition: offset.offset
            for (name, partition), offset in self._state.offsets.of_group(group_id).items()
            if name == topic
        }


def floors(groups: Mapping[str, Positions], named: tuple[str, ...], partition_count: int) -> list[int]:
    """Below which offset of each partition every group that counts has consumed everything."""
    counting = list(groups) if EVERY_GROUP in named else list(named)
    if not counting:
        return [0] * partition_count
    return [
        min(groups.get(group_id, {}).get(partition, 0) for group_id in counting) for partition in range(partition_count)
    ]


EVERY_GROUP = "*"
