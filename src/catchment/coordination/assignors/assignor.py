"""What an assignor is given and what it answers.

An assignor is a function of the group alone: the same members and topics always give the same assignment, whichever order
they come in. What members hold already comes in with them, so that an assignor can leave it where it is.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import NamedTuple, Protocol
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
