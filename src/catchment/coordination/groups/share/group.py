"""A share group: all of it is logged state, but for what a heartbeat has last compared.

The group's epoch rises with every change of what its members ask for or of what there is to read. The target is what the
assignor made of one epoch, and a member has its target as soon as it asks: partitions may have several readers, so nobody
has to give one up first.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final, NamedTuple
from uuid import UUID

from catchment.cluster.metadata import MetadataImage
from catchment.coordination.coordinator_shard import EncodedRecord
from catchment.coordination.groups.modern_records import encode_key
from catchment.coordination.groups.state import GroupKind

MEMBER_KEY: Final = 10
EPOCH_KEY: Final = 11
TARGET_EPOCH_KEY: Final = 12
TARGET_KEY: Final = 13
CURRENT_KEY: Final = 14
PARTITIONS_KEY: Final = 15

Partitions = Mapping[UUID, frozenset[int]]
NO_PARTITIONS: Final[Partitions] = MappingProxyType({})


class ShareMember(NamedTuple):
    """What a member has told of itself."""

    rack_id: str | None = None
    client_id: str = ""
    client_host: str = ""
    topics: tuple[str, ...] = ()
    """In order."""


class ShareAssignment(NamedTuple):
    """What a member has, and in which epoch."""

    epoch: int = 0
    previous_epoch: int = 0
    assigned: Partitions = NO_PARTITIONS


class StateTopic(NamedTuple):
    name: str
    partitions: frozenset[int]


class StatePartitions(NamedTuple):
    """For which partitions there is share state, by topic: it is made before anybody may read, and deleted at the end."""

    initializing: Mapping[UUID, StateTopic] = MappingProxyType({})
    initialized: Mapping[UUID, StateTopic] = MappingProxyType({})
    deleting: Mapping[UUID, str] = MappingProxyType({})
    """The topics' names."""


class ShareGroup:
    __slots__ = (
        "assignment_epoch",
        "checked_partitions",
        "checked_version",
        "currents",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "partitions",
        "targets",
    )

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        """Of the topics that the group's epoch was made for."""
        self.assignment_epoch = 0
        """The epoch of the group that the target was made for."""
        self.members: dict[str, ShareMember] = {}
        self.targets: dict[str, Partitions] = {}
        self.currents: dict[str, ShareAssignment] = {}
        self.partitions = StatePartitions()
        self.checked_version: int | None = None
        """The metadata image that the topics were last compared with. This and the next are volatile."""
        self.checked_partitions: StatePartitions | None = None
        """What the targets were last compared with."""

    def copy(self) -> ShareGroup:
        other = copy.copy(self)
        for name in ("members", "targets", "currents"):
            setattr(other, name, dict(getattr(self, name)))
        return other

    @property
    def kind(self) -> GroupKind:
        return GroupKind.SHARE

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    def state_name(self) -> str:
        return "Stable" if self.members else "Empty"

    @property
    def topics(self) -> frozenset[str]:
        return frozenset(name for member in self.members.values() for name in member.topics)

    def begin_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash
        self.checked_version = None

    def is_checked(self, image: MetadataImage) -> bool:
        """Whether a heartbeat has found everything in order, and nothing has changed since."""
        return self.checked_version == image.version and self.checked_partitions is self.partitions

    def target(self, member_id: str) -> Partitions:
        return self.targets.get(member_id, NO_PARTITIONS)

    def current(self, member_id: str) -> ShareAssignment:
        return self.currents.get(member_id, _NOT_YET_ASSIGNED)

    def tombstones(self) -> list[EncodedRecord]:
        """What deletes the group; its own record goes last, so that all others are deleted from a group that exists."""
        group_id = self.group_id
        keys = [encode_key(CURRENT_KEY, group_id, member_id) for member_id in self.currents]
        keys += [encode_key(TARGET_KEY, group_id, member_id) for member_id in self.targets]
        keys.append(encode_key(TARGET_EPOCH_KEY, group_id))
        keys += [encode_key(MEMBER_KEY, group_id, member_id) for member_id in self.members]
        keys.append(encode_key(PARTITIONS_KEY, group_id))
        keys.append(encode_key(EPOCH_KEY, group_id))
        return [(key, None) for key in keys]


_NOT_YET_ASSIGNED: Final = ShareAssignment()
