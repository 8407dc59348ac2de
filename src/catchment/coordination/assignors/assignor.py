"""The interface of assignors, and what several of them use.

An assignor is a pure function: the same members and topics give the same assignment, whatever their order. It gets the
previous assignment of the members too, so that it can move as few partitions as possible.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar
from uuid import UUID

Assignment = dict[UUID, frozenset[int]]
"""The partitions of one member, by topic, without topics that have none."""


class MemberSpec(NamedTuple):
    """A member, as the input of an assignor."""

    instance_id: str | None
    rack: str | None
    topics: frozenset[UUID]
    assigned: Mapping[UUID, frozenset[int]]
    """Its partitions by the previous assignment."""


class Assignor(Protocol):
    """A module of this package: each has a `NAME` and this function."""

    def assign(self, members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> dict[str, Assignment]:
        """Assign partitions to the members. Topics without a partition count do not exist, and are not assigned."""


def in_order(members: Mapping[str, MemberSpec]) -> list[str]:
    """The member ids, static members first and by instance id, so that a restart of one does not move the others."""
    return sorted(members, key=lambda member_id: _sort_key(member_id, members[member_id]))


def subscribers_by_topic(members: Mapping[str, MemberSpec], existing: Collection[UUID]) -> dict[UUID, list[str]]:
    """The subscribers of each existing topic. Both the topics and the subscribers are in order."""
    subscribers: dict[UUID, list[str]] = {}
    for member_id in in_order(members):
        for topic_id in members[member_id].topics:
            if topic_id in existing:
                subscribers.setdefault(topic_id, []).append(member_id)
    return {topic_id: subscribers[topic_id] for topic_id in sorted(subscribers)}


def _sort_key(member_id: str, member: MemberSpec) -> tuple[bool, str]:
    return member.instance_id is None, member.instance_id or member_id


Item = TypeVar("Item")


def share_out(items: Sequence[Item], owners: Mapping[Item, str], members: Sequence[str]) -> dict[str, list[Item]]:
    """Give each member as many items as any other, or one more. `owners` keep theirs as far as that allows.

    Members that hold more than the smallest share get the extra items, so no other division moves fewer. The free items go
    to the members in consecutive runs, in the order of the items.
    """
    least, over = divmod(len(items), len(members))
    held: dict[str, list[Item]] = {member: [] for member in members}
    for item in items:
        if (owner := owners.get(item)) in held:
            held[owner].append(item)
    shares = dict.fromkeys(members, least)
    # The sort is stable: among those that hold more than their share, and among the others, the members keep their order.
    for member in sorted(members, key=lambda member: len(held[member]) <= least)[:over]:
        shares[member] += 1
    for member, kept in held.items():
        del kept[shares[member] :]
    taken = {item for kept in held.values() for item in kept}
    free = iter([item for item in items if item not in taken])
    for member, kept in held.items():
        kept += [next(free) for _ in range(shares[member] - len(kept))]
    return held
