"""What is logged of one member of a consumer group: what it asks for, and what it has been given."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import IntEnum
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from catchment.coordination.groups.classic.commands import Protocols

JOINING: Final = 0
"""The epoch of somebody who joins, or joins again."""
LEAVING: Final = -1
STATIC_LEAVING: Final = -2
"""A static member goes and means to come back; its place is kept for it."""
NO_TIMEOUT: Final = -1

Partitions = Mapping[UUID, Mapping[int, int]]
"""Partitions by topic, each with the group's epoch in which the member got it (KIP-1251)."""
Target = Mapping[UUID, frozenset[int]]
Owned = Mapping[UUID, frozenset[int]]
"""The partitions that a member reports to own."""
NOTHING: Final[Partitions] = MappingProxyType({})


class MemberState(IntEnum):
    """How far a member is on its way to the target; the numbers are those of the records."""

    STABLE = 0
    UNREVOKED_PARTITIONS = 1
    """It holds partitions that it has to give up first."""
    UNRELEASED_PARTITIONS = 2
    """It waits for partitions that others hold."""


class ClassicProtocol(NamedTuple):
    """What a member that speaks the classic protocol has said when it joined."""

    session_timeout_ms: int
    protocols: Protocols


class MemberMetadata(NamedTuple):
    """What a member has told of itself."""

    instance_id: str | None = None
    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """In order."""
    regex: str | None = None
    rebalance_timeout_ms: int = NO_TIMEOUT
    assignor: str | None = None
    classic: ClassicProtocol | None = None
    """None for a member that speaks the consumer protocol."""


class CurrentAssignment(NamedTuple):
    """What a member has, and in which epoch."""

    epoch: int = JOINING
    previous_epoch: int = JOINING
    """The one before: a member that missed our last answer comes with it."""
    state: MemberState = MemberState.STABLE
    assigned: Partitions = NOTHING
    revoking: Partitions = NOTHING
    """What it has to give up and, for all we know, still reads."""

    def at_epoch(self, epoch: int) -> CurrentAssignment:
        return self if epoch == self.epoch else self._replace(epoch=epoch, previous_epoch=self.epoch)

    def held(self) -> Iterator[tuple[UUID, int]]:
        """Everything that nobody else may have."""
        for partitions in (self.assigned, self.revoking):
            for topic_id, numbers in partitions.items():
                for number in numbers:
                    yield topic_id, number


class ResolvedRegex(NamedTuple):
    """Which topics a regular expression meant when it was last looked at."""

    topics: tuple[str, ...]
    version: int
    """Of the metadata image."""
    time_ms: int
