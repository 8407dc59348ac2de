"""The simple assignor of share groups (KIP-932): a partition may have several readers, and every member gets a partition.

Each partition gets as many readers as are needed so that every subscriber has one. Members get as many partitions as any
other, or one more, and keep their partitions as far as that allows. If all members subscribe to the same topics this holds
over all topics together, otherwise for each topic separately.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Mapping, Sequence
from typing import Final
from uuid import UUID

from catchment.coordination.assignors.assignor import Assignment, MemberSpec, in_order, subscribers_by_topic

NAME: Final = "simple"

_Partition = tuple[int, UUID]


def assign(members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> dict[str, Assignment]:
    return assign_partitions(
        members, {topic_id: frozenset(range(count)) for topic_id, count in partition_counts.items()}
    )


def assign_partitions(
    members: Mapping[str, MemberSpec], partitions: Mapping[UUID, frozenset[int]]
) -> dict[str, Assignment]:
    """As `assign`, for some partitions of each topic."""
    subscribers = subscribers_by_topic(members, partitions)
    shared: dict[str, set[_Partition]] = {member_id: set() for member_id in members}
    if all(len(readers) == len(members) for readers in subscribers.values()):
        targets = sorted((number, topic_id) for topic_id in subscribers for number in partitions[topic_id])
        _distribute(targets, in_order(members), members, shared)
    else:
        for topic_id, readers in subscribers.items():
            targets = [(number, topic_id) for number in sorted(partitions[topic_id])]
            _distribute(targets, readers, members, shared)
    return {member_id: _by_topic(partitions) for member_id, partitions in shared.items()}


def _distribute(
    targets: Sequence[_Partition],
    readers: Sequence[str],
    members: Mapping[str, MemberSpec],
    shared: dict[str, set[_Partition]],
) -> None:
    """Give every partition equally many readers, and every reader equally many partitions, to within one."""
    if not targets or not readers:
        return
    readers_of_each = -(-len(readers) // len(targets))
    room = dict.fromkeys(targets, readers_of_each)
    held = {reader: _held(members[reader], room) for reader in readers}
    wanted = _wanted(held, len(targets) * readers_of_each)
    for reader, partitions in held.items():
        kept = [partition for partition in partitions if room[partition]][: wanted[reader]]
        for partition in kept:
            room[partition] -= 1
        shared[reader].update(kept)
        wanted[reader] -= len(kept)
    # Partitions with the fewest readers come first, so none gets a second reader while another has none.
    levels = [(readers_of_each - left, partition) for partition, most in room.items() for left in range(most, 0, -1)]
    slots = deque(partition for _, partition in sorted(levels))
    for reader, count in wanted.items():
        for _ in range(count):
            _take(slots, room, shared[reader])


def _take(slots: deque[_Partition], room: dict[_Partition, int], mine: set[_Partition]) -> None:
    """Assign the first free slot of a partition that the reader does not have yet."""
    skipped: list[_Partition] = []
    while slots and slots[0] in mine:
        skipped.append(slots.popleft())
    # If the reader has all partitions with free slots already, another partition gets one reader too many.
    taken = slots.popleft() if slots else max(room.keys() - mine, key=lambda partition: (room[partition], partition))
    slots.extendleft(reversed(skipped))
    mine.add(taken)
    room[taken] -= 1


def _held(member: MemberSpec, targets: Collection[_Partition]) -> list[_Partition]:
    """The targets that the member has already."""
    held = ((number, topic_id) for topic_id, numbers in member.assigned.items() for number in numbers)
    return sorted(partition for partition in held if partition in targets)


def _wanted(held: Mapping[str, Sequence[_Partition]], total: int) -> dict[str, int]:
    """The number of partitions for each reader. Those that have more than the smallest share get the extra ones."""
    least, over = divmod(total, len(held))
    wanted = dict.fromkeys(held, least)
    for reader in sorted(held, key=lambda reader: len(held[reader]) <= least)[:over]:
        wanted[reader] += 1
    return wanted


def _by_topic(partitions: set[_Partition]) -> Assignment:
    numbers: dict[UUID, list[int]] = {}
    for number, topic_id in sorted(partitions):
        numbers.setdefault(topic_id, []).append(number)
    return {topic_id: frozenset(mine) for topic_id, mine in numbers.items()}
