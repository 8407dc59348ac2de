"""The state of one shard of the group coordinator: the groups whose records lie in one partition of `__consumer_offsets`.

`logged` and `offsets` are logged state, and only `replay` changes them. `groups` and `timers` are volatile: rebalances in
progress, sessions and waiting requests. A shard that replays the log from the start has the same logged state, and its groups
are stable or empty, as their last record says.

A group id belongs to one kind of group at a time. This module holds the classic groups. The other kinds register in
`replayers`, by key version, the functions that replay their records, and claim the ids of their groups.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import StrEnum
from typing import Final, NamedTuple, Protocol

from kio.schema.errors import ErrorCode

from catchment.cluster.metadata import MetadataImage
from catchment.coordination.coordinator_shard import NO_PRODUCER, EncodedRecord, ShardOutput
from catchment.coordination.groups.classic.group import Group, GroupState
from catchment.coordination.groups.offsets import CommittedOffsets, TransactionalOffsets
from catchment.coordination.groups.records import (
    GroupKey,
    GroupRecord,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
)
from catchment.protocol.errors import ApiError

_KEY_VERSION: Final = struct.Struct(">h")

Replayer = Callable[[bytes, bytes | None], None]
"""Applies a record: its key, including the version, and its value, which is None in a tombstone."""


class GroupLimits(NamedTuple):
    """The settings of groups and offsets."""

    min_session_timeout_ms: int = 6_000
    max_session_timeout_ms: int = 1_800_000
    max_size: int = 2_147_483_647
    initial_rebalance_delay_ms: int = 3_000
    offset_metadata_max_bytes: int = 4_096
    offsets_retention_ms: int = 604_800_000


class GroupKind(StrEnum):
    """The names are those of the protocol."""

    CLASSIC = "classic"
    CONSUMER = "consumer"
    SHARE = "share"


class NonClassicGroup(Protocol):
    """A group of another kind than classic, as far as all kinds are handled alike."""

    @property
    def kind(self) -> GroupKind: ...

    @property
    def state_name(self) -> str:
        """The state as clients see it."""

    @property
    def is_empty(self) -> bool:
        """Whether it has no member."""

    @property
    def topics(self) -> frozenset[str]:
        """The topics that the members subscribe to."""

    def tombstones(self) -> list[EncodedRecord]:
        """The records that delete the group, but not its offsets."""


class ShardState(ShardOutput):
    __slots__ = (
        "_image",
        "_is_live",
        "groups",
        "limits",
        "logged",
        "offsets",
        "others",
        "pending_offsets",
        "replayers",
    )

    def __init__(self, limits: GroupLimits, image: Callable[[], MetadataImage] = MetadataImage) -> None:
        """`image` returns the current metadata image, which stays the same during one command."""
        super().__init__()
        self.limits = limits
        self._image = image
        self._is_live = False
        """Whether the log has been replayed and the groups have been created."""
        self.logged: dict[str, GroupRecord] = {}
        self.offsets = CommittedOffsets()
        self.pending_offsets = TransactionalOffsets()
        self.groups: dict[str, Group] = {}
        """The classic groups, and the groups that have nothing but offsets."""
        self.replayers: dict[int, Replayer] = {}
        """The functions that replay the records of other kinds of groups. Records of unknown kinds are ignored."""
        self.others: dict[str, NonClassicGroup] = {}
        """The groups of other kinds. Only `claim` and `release` change it."""

    def replay(self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER) -> None:
        """Apply a record of the log. Offsets with a producer take effect once its transaction has committed."""
        if len(key) >= _KEY_VERSION.size:
            replayer = self.replayers.get(_KEY_VERSION.unpack_from(key)[0])
            if replayer is not None:
                replayer(key, value)
                return
        subject = decode_key(key)
        if isinstance(subject, OffsetKey):
            self._replay_offset(subject, value, producer_id)
        elif isinstance(subject, GroupKey):
            if value is None:
                self.logged.pop(subject.group_id, None)
            else:
                record = self.logged[subject.group_id] = decode_group(value)
                if self._is_live and subject.group_id not in self.groups:
                    # A group of another kind has become a classic one.
                    self.groups[subject.group_id] = Group.from_record(subject.group_id, record)
            self._update_existence(subject.group_id)

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        """Apply the marker that ends the producer's transaction."""
        for group_id in self.pending_offsets.end(producer_id, is_commit, self.offsets.replay):
            self._update_existence(group_id)

    def rebuild_groups(self) -> None:
        """Create the groups that the log describes, once all of it is replayed."""
        self._is_live = True
        for group_id, record in self.logged.items():
            self.groups[group_id] = Group.from_record(group_id, record)

    @property
    def image(self) -> MetadataImage:
        return self._image()

    def kind_of(self, group_id: str) -> GroupKind | None:
        """The kind of the group; None where there is no such group."""
        other = self.others.get(group_id)
        if other is not None:
            return other.kind
        return GroupKind.CLASSIC if group_id in self.groups else None

    def claim(self, group_id: str, other: NonClassicGroup) -> None:
        """Register a group of another kind when its first record is replayed. It replaces a classic group with this id."""
        self.others[group_id] = other
        group = self.groups.pop(group_id, None)
        if group is not None:
            group.move_to(GroupState.DEAD, group.state_time_ms)
            self.timers.cancel(("join", group_id, ""))
            self.timers.cancel(("sync", group_id, ""))
            for member in group.members.values():
                member.cancel_requests(ErrorCode.rebalance_in_progress)

    def release(self, group_id: str) -> None:
        """Unregister a group of another kind when its last record is deleted."""
        if self.others.pop(group_id, None) is not None:
            self._update_existence(group_id)

    def existing(self, group_id: str, otherwise: ErrorCode = ErrorCode.unknown_member_id) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            what = "is not a classic group" if group_id in self.others else "not found"
            raise ApiError(otherwise, f"Group {group_id} {what}.")
        return group

    def get_or_create(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        return group

    def remove_if_idle(self, group_id: str) -> None:
        """Remove a group that has neither records nor members."""
        group = self.groups.get(group_id)
        if group is not None and group.is_idle and group_id not in self.logged and not self._has_offsets(group_id):
            group.move_to(GroupState.DEAD, group.state_time_ms)
            del self.groups[group_id]

    def _update_existence(self, group_id: str) -> None:
        """Create or remove the group: it exists as long as it has records."""
        if group_id in self.logged or (self._has_offsets(group_id) and group_id not in self.others):
            self.get_or_create(group_id)
        else:
            self.remove_if_idle(group_id)

    def _has_offsets(self, group_id: str) -> bool:
        return group_id in self.offsets or group_id in self.pending_offsets

    def _replay_offset(self, key: OffsetKey, value: bytes | None, producer_id: int) -> None:
        if value is None:
            self.offsets.replay(key, None)
            self.pending_offsets.remove(key)
        elif producer_id != NO_PRODUCER:
            self.pending_offsets.replay(producer_id, key, decode_offset(value))
        else:
            self.offsets.replay(key, decode_offset(value))
            self.pending_offsets.supersede(key)
        self._update_existence(key.group_id)
