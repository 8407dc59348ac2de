"""The simple assignor of share groups (KIP-932): a partition may have several readers, and no member is left without work.

Each partition gets as many readers as it takes to employ every subscriber, and members get as many partitions as any other,
or one more; what they have they keep as far as that allows. Where all subscribe to the same topics this holds over all
topics together, otherwise for each topic by itself.
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
        _share(targets, in_order(members), members, shared)
    else:
        for topic_id, readers in subscribers.items():
            targets = [(number, topic_id) for number in sorted(partitions[topic_id])]
            _share(targets, readers, members, shared)
    return {member_id: _by_topic(partitions) for member_id, partitions in shared.items()}


def _share(
    targets: Sequence[_Partition],
    readers: Sequence[str],
    members: Mapping[str, MemberSpec],
    shared: dict[str, set[_Partition]],
) -> None:
    """Give every target to equally many readers, and every reader equally many targets, to within one."""
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
    # Those with the fewest readers come first, so nobody gets a second one while another has none.
    levels = [(readers_of_each - left, partition) for partition, most in room.items() for left in range(most, 0, -1)]
    places = deque(partition for _, partition in sorted(levels))
    for reader, count in wanted.items():
        for _ in range(count):
            _take(places, room, shared[reader])


def _take(places: deque[_Partition], room: dict[_Partition, int], mine: set[_Partition]) -> None:
    """Take the first free place at a partition that the reader does not have yet."""
    passed: list[_Partition] = []
    while places and places[0] in mine:
        passed.append(places.popleft())
    # Where all that is free is the reader's already, another partition gets one reader too many instead.
    taken = places.popleft() if places else max(room.keys() - mine, key=lambda partition: (room[partition], partition))
    places.extendleft(reversed(passed))
    mine.add(taken)
    room[taken] -= 1


def _held(member: MemberSpec, targets: Collection[_Partition]) -> list[_Partition]:
    """What the member has of the targets."""
    held = ((number, topic_id) for topic_id, numbers in member.assigned.items() for number in numbers)
    return sorted(partition for partition in held if partition in targets)


def _wanted(held: Mapping[str, Sequence[_Partition]], total: int) -> dict[str, int]:
    """How many each reader shall have; those who have more than the least keep the one that is over."""
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
