"""The range assignor (KIP-848): members get the same partition numbers of co-partitioned topics, so that they can join them.

Topics with the same subscribers and the same number of partitions are divided once, for all of them: the member that has
partition 3 of one has partition 3 of each. Every topic is divided evenly among its subscribers, which keep their partitions as
far as that allows. Free partitions are assigned in consecutive runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final
from uuid import UUID

from catchment.coordination.assignors.assignor import Assignment, MemberSpec, share_out, subscribers_by_topic

NAME: Final = "range"


def assign(members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> dict[str, Assignment]:
    joined: dict[tuple[int, tuple[str, ...]], list[UUID]] = {}
    for topic_id, subscribers in subscribers_by_topic(members, partition_counts).items():
        joined.setdefault((partition_counts[topic_id], tuple(subscribers)), []).append(topic_id)
    assignments: dict[str, Assignment] = {member_id: {} for member_id in members}
    for (count, readers), topic_ids in joined.items():
        owners = _owners(topic_ids, {member_id: members[member_id] for member_id in readers})
        for member_id, numbers in share_out(range(count), owners, readers).items():
            if numbers:
                assignments[member_id].update(dict.fromkeys(topic_ids, frozenset(numbers)))
    return assignments


def _owners(topic_ids: Sequence[UUID], subscribers: Mapping[str, MemberSpec]) -> dict[int, str]:
    """The owner of each partition number. Where the topics differ, as after one was created, the first assigned one decides."""
    owners: dict[int, str] = {}
    for topic_id in topic_ids:
        for member_id, member in subscribers.items():
            for number in member.assigned.get(topic_id, ()):
                owners.setdefault(number, member_id)
    return owners
