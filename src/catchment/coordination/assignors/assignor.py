"""What an assignor is given and what it answers.

An assignor is a function of the group alone: the same members and topics always give the same assignment, whichever order
they come in. What members hold already comes in with them, so that an assignor can leave it where it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple, Protocol, TypeVar
from uuid import UUID

Assignment = dict[UUID, frozenset[int]]
"""The partitions of each topic that one member reads; topics of which it reads none are left out."""


class MemberSpec(NamedTuple):
    """One member as an assignor sees it."""

    instance_id: str | None
    rack: str | None
    topics: frozenset[UUID]
    assigned: Mapping[UUID, frozenset[int]]
    """What it holds by the last assignment."""


class Assignor(Protocol):
    """A module of this package: each has a `NAME` and this function."""

    def assign(self, members: Mapping[str, MemberSpec], partition_counts: Mapping[UUID, int]) -> dict[str, Assignment]:
        """What each member shall read. Topics without a partition count do not exist, and nobody gets them."""


def in_order(members: Mapping[str, MemberSpec]) -> list[str]:
    """The members' ids, static members first and by instance id, so that a restart of one does not move the others."""
    return sorted(members, key=lambda member_id: _place(member_id, members[member_id]))


def subscribers_by_topic(members: Mapping[str, MemberSpec], existing: Collection[UUID]) -> dict[UUID, list[str]]:
    """For each topic that exists and that anybody reads, its readers, in order. The topics are in order too."""
    subscribers: dict[UUID, list[str]] = {}
    for member_id in in_order(members):
        for topic_id in members[member_id].topics:
            if topic_id in existing:
                subscribers.setdefault(topic_id, []).append(member_id)
    return {topic_id: subscribers[topic_id] for topic_id in sorted(subscribers)}


def _place(member_id: str, member: MemberSpec) -> tuple[bool, str]:
    return member.instance_id is None, member.instance_id or member_id


Item = TypeVar("Item")


def share_out(items: Sequence[Item], owners: Mapping[Item, str], members: Sequence[str]) -> dict[str, list[Item]]:
    """Give each member as many items as any other, or one more; `owners` keep theirs as far as that allows.

    Who holds more than the least share keeps the one that is over, so no other division moves fewer. What is left goes to
    the members in runs, in the order of the items.
    """
    least, over = divmod(len(items), len(members))
    held: dict[str, list[Item]] = {member: [] for member in members}
    for item in items:
        if (owner := owners.get(item)) in held:
            held[owner].append(item)
    shares = dict.fromkeys(members, least)
    # A stable sort: among those who hold too much, and among the others, the order of the members decides.
    for member in sorted(members, key=lambda member: len(held[member]) <= least)[:over]:
        shares[member] += 1
    for member, kept in held.items():
        del kept[shares[member] :]
    taken = {item for kept in held.values() for item in kept}
    free = iter([item for item in items if item not in taken])
    for member, kept in held.items():
        kept += [next(free) for _ in range(shares[member] - len(kept))]
    return held
