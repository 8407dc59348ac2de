"""The uniform assignor (KIP-848): as even as can be over all topics together, and otherwise everything stays where it is.

Where all members subscribe to the same topics, no two differ by more than one partition. Where they do not, no partition
could go from one member to another who may read it and has at least two fewer.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final
from uuid import UUID

from catchment.coordination.assignors.assignor import Assignment, MemberSpec, in_order, subscribers_by_topic
from catchment.coordination.assignors.levelling import Levelling
from catchment.coordination.assignors.sharing_out import share_out

NAME: Final = "uniform"


def assign(members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> dict[str, Assignment]:
    subscribers = subscribers_by_topic(members, partition_counts)
    if all(len(readers) == len(members) for readers in subscribers.values()):
        return _assign_alike(members, {topic_id: partition_counts[topic_id] for topic_id in subscribers})
    levelling = Levelling(subscribers, partition_counts)
    for member_id in in_order(members):
        levelling.keep(member_id, members[member_id].assigned)
    levelling.place_the_rest()
    levelling.level()
    return levelling.assignments(members)


def _assign_alike(members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> dict[str, Assignment]:
    order = in_order(members)
    owners = {
        (number, topic_id): member_id
        for member_id in order
        for topic_id, numbers in members[member_id].assigned.items()
        for number in numbers
    }
    # Neighbours in this order are of different topics, so that the runs dealt out mix busy topics with quiet ones.
    items = sorted((number, topic_id) for topic_id, count in partition_counts.items() for number in range(count))
    assignments: dict[str, Assignment] = {}
    for member_id, shared in share_out(items, owners, order).items() if items else ():
        numbers: dict[UUID, list[int]] = {}
        for number, topic_id in shared:
            numbers.setdefault(topic_id, []).append(number)
        assignments[member_id] = {topic_id: frozenset(mine) for topic_id, mine in numbers.items()}
    return {member_id: assignments.get(member_id, {}) for member_id in members}
