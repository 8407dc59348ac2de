"""A share group (KIP-932): members read the same partitions together, as from a queue.

A member has its target assignment as soon as it sends a heartbeat: a partition may have several readers, so no member has
to revoke one first.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from catchment.cluster.metadata import MetadataImage
from catchment.coordination.groups.modern import NO_PARTITIONS, KeyVersions, ModernGroup, PartitionsByTopic
from catchment.coordination.groups.modern_records import encode_key
from catchment.coordination.groups.state import GroupKind

PARTITIONS_KEY: Final = 15


class ShareGroupLimits(NamedTuple):
    """The settings of share groups. Some differ from group to group."""

    max_size: int = 200
    initialize_retry_ms: int = 30_000
    session_timeout_ms: Callable[[str], int] = lambda _: 45_000
    heartbeat_interval_ms: Callable[[str], int] = lambda _: 5_000


DEFAULT_SHARE_LIMITS: Final = ShareGroupLimits()


class ShareAssignment(NamedTuple):
    """The partitions that a member has, and its epoch."""

    epoch: int = 0
    previous_epoch: int = 0
    assigned: PartitionsByTopic = NO_PARTITIONS


class StateTopic(NamedTuple):
    name: str
    partitions: frozenset[int]


class StatePartitions(NamedTuple):
    """The partitions with share state, by topic. It is initialized before they are assigned, and deleted with the group."""

    initializing: Mapping[UUID, StateTopic] = MappingProxyType({})
    initialized: Mapping[UUID, StateTopic] = MappingProxyType({})
    deleting: Mapping[UUID, str] = MappingProxyType({})
    """The names of the topics."""


_NOT_YET_ASSIGNED: Final = ShareAssignment()


class ShareGroup(ModernGroup[ShareAssignment]):
    __slots__ = ("checked_partitions", "partitions")

    kind = GroupKind.SHARE
    keys = KeyVersions(epoch=11, member=10, target_epoch=12, target=13, current=14)

    def __init__(self, group_id: str) -> None:
        super().__init__(group_id)
        self.partitions = StatePartitions()
        self.checked_partitions: StatePartitions | None = None
        """The share state that the targets were last compared with. This is volatile."""

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(name for member in self.members.values() for name in member.topics)

    def current(self, member_id: str) -> ShareAssignment:
        return self.currents.get(member_id, _NOT_YET_ASSIGNED)

    def begin_epoch(self, epoch: int, metadata_hash: int) -> None:
        super().begin_epoch(epoch, metadata_hash)
        self.checked_version = None

    def is_checked(self, image: MetadataImage) -> bool:
        """Whether a heartbeat has found everything up to date, and nothing has changed since."""
        return self.checked_version == image.version and self.checked_partitions is self.partitions

    def other_keys(self) -> list[bytes]:
        return [encode_key(PARTITIONS_KEY, self.group_id)]
