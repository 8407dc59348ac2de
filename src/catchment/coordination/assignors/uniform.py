"""The uniform assignor (KIP-848): as even as possible over all topics together, moving as few partitions as possible.

If all members subscribe to the same topics, no two differ by more than one partition. Otherwise, no partition could move to
another subscriber that has at least two partitions fewer.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from catchment.coordination.assignors.assignor import Assignment, MemberSpec, in_order, share_out, subscribers_by_topic

NAME: Final = "uniform"


def assign(members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> dict[str, Assignment]:
    subscribers = subscribers_by_topic(members, partition_counts)
    if all(len(readers) == len(members) for readers in subscribers.values()):
        return _assign_alike(members, {topic_id: partition_counts[topic_id] for topic_id in subscribers})
    balancer = PartitionBalancer(subscribers, partition_counts)
    for member_id in in_order(members):
        balancer.keep(member_id, members[member_id].assigned)
    balancer.assign_free()
    balancer.balance()
    return balancer.assignments(members)


def _assign_alike(members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> dict[str, Assignment]:
    order = in_order(members)
    owners = {
        (number, topic_id): member_id
        for member_id in order
        for topic_id, numbers in members[member_id].assigned.items()
        for number in numbers
    }
    # Neighbours in this order are of different topics, so that consecutive runs mix busy topics with quiet ones.
    items = sorted((number, topic_id) for topic_id, count in partition_counts.items() for number in range(count))
    assignments: dict[str, Assignment] = {}
    for member_id, shared in share_out(items, owners, order).items() if items else ():
        numbers: dict[UUID, list[int]] = {}
        for number, topic_id in shared:
            numbers.setdefault(topic_id, []).append(number)
        assignments[member_id] = {topic_id: frozenset(mine) for topic_id, mine in numbers.items()}
    return {member_id: assignments.get(member_id, {}) for member_id in members}


class PartitionBalancer:
    """Balances partitions among members that do not all subscribe to the same topics.

    Members keep their partitions at first. Free partitions go to the least loaded subscriber, topics with few subscribers
    first. Then each topic is balanced in turn: while one subscriber has two partitions more than another, a partition of this
    topic moves. Every move makes the sum of the squared loads smaller, so this ends.
    """

    def __init__(self, subscribers: Mapping[UUID, list[str]], partition_counts: Mapping[UUID, int]) -> None:
        self._subscribers = subscribers
        self._free = {topic_id: dict.fromkeys(range(partition_counts[topic_id])) for topic_id in subscribers}
        self._owned: dict[UUID, dict[str, list[int]]] = {
            topic_id: {reader: [] for reader in readers} for topic_id, readers in subscribers.items()
        }
        """The partitions of each reader of a topic. Those of the previous assignment come first."""
        self._loads = {reader: 0 for readers in subscribers.values() for reader in readers}

    def keep(self, member_id: str, assigned: Mapping[UUID, Iterable[int]]) -> None:
        """Keep the partitions of a member that it still subscribes to and no other member has."""
        for topic_id in sorted(assigned):
            owned = self._owned.get(topic_id, {}).get(member_id)
            if owned is not None:
                kept = [number for number in sorted(assigned[topic_id]) if number in self._free[topic_id]]
                for number in kept:
                    del self._free[topic_id][number]
                owned += kept
                self._loads[member_id] += len(kept)

    def assign_free(self) -> None:
        """Assign free partitions to the least loaded reader. Topics with few readers have the least choice and come first."""
        for topic_id in sorted(self._free, key=lambda topic_id: (len(self._subscribers[topic_id]), topic_id)):
            readers = [
                (self._loads[reader], position, reader) for position, reader in enumerate(self._subscribers[topic_id])
            ]
            heapq.heapify(readers)
            for number in self._free[topic_id]:
                load, position, reader = readers[0]
                heapq.heapreplace(readers, (load + 1, position, reader))
                self._owned[topic_id][reader].append(number)
                self._loads[reader] = load + 1
            self._free[topic_id] = {}

    def balance(self) -> None:
        while sum(self._balance_topic(topic_id) for topic_id in self._subscribers):
            pass

    def assignments(self, members: Iterable[str]) -> dict[str, Assignment]:
        assignments: dict[str, Assignment] = {member_id: {} for member_id in members}
        for topic_id, owned in self._owned.items():
            for reader, numbers in owned.items():
                if numbers:
                    assignments[reader][topic_id] = frozenset(numbers)
        return assignments

    def _balance_topic(self, topic_id: UUID) -> bool:
        """Move partitions of this topic while that improves the balance; whether any was moved."""
        loads, owned = self._loads, self._owned[topic_id]
        positions = {reader: position for position, reader in enumerate(self._subscribers[topic_id])}
        givers = [(-loads[reader], position, reader) for reader, position in positions.items() if owned[reader]]
        takers = [(loads[reader], position, reader) for reader, position in positions.items()]
        heapq.heapify(givers)
        heapq.heapify(takers)
        has_moved = False
        while givers and takers:
            giver, taker = givers[0][2], takers[0][2]
            # An entry with an outdated load is stale: the heap holds a newer one as well.
            if -givers[0][0] != loads[giver] or not owned[giver]:
                heapq.heappop(givers)
            elif takers[0][0] != loads[taker]:
                heapq.heappop(takers)
            elif loads[giver] < loads[taker] + 2:
                break
            else:
                owned[taker].append(owned[giver].pop())
                loads[giver] -= 1
                loads[taker] += 1
                for reader in (giver, taker):
                    heapq.heappush(givers, (-loads[reader], positions[reader], reader))
                    heapq.heappush(takers, (loads[reader], positions[reader], reader))
                has_moved = True
        return has_moved
