"""What consumer groups and share groups have in common: members, epochs and assignments, as Kafka's `ModernGroup` has them.

The epoch of a group rises with every change of the members' subscriptions or of the subscribed topics. The assignor computes
the target assignment for one epoch, and each member moves to its target with its own heartbeats. All of it is logged state.
"""

from __future__ import annotations

import abc
import copy
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Final, Generic, NamedTuple, Self, TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import EncodedRecord
from catchment.coordination.groups.classic.commands import Protocols
from catchment.coordination.groups.modern_records import (
    decode_key,
    decode_target,
    decode_target_epoch,
    encode_key,
    encode_target,
    encode_target_epoch,
)
from catchment.coordination.groups.state import GroupKind, ShardState
from catchment.protocol.errors import ApiError

JOINING: Final = 0
"""The epoch of a member that joins, or joins again."""
LEAVING: Final = -1
NO_TIMEOUT: Final = -1

PartitionsByTopic = Mapping[UUID, frozenset[int]]
"""Partitions by topic."""
NO_PARTITIONS: Final[PartitionsByTopic] = {}


class ClassicProtocol(NamedTuple):
    """What a member that uses the classic protocol sent with JoinGroup."""

    session_timeout_ms: int
    protocols: Protocols


class MemberMetadata(NamedTuple):
    """What a member has reported about itself. Share groups use the rack, the client and the topics only."""

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
    """None for a member that uses the protocol of its group."""


AssignmentT = TypeVar("AssignmentT")


class MemberDescription(NamedTuple, Generic[AssignmentT]):
    member_id: str
    metadata: MemberMetadata
    current: AssignmentT
    target: PartitionsByTopic


class GroupDescription(NamedTuple, Generic[AssignmentT]):
    """A group with its members, for ConsumerGroupDescribe and ShareGroupDescribe."""

    state_name: str
    epoch: int
    assignment_epoch: int
    assignor: str
    members: tuple[MemberDescription[AssignmentT], ...]


class KeyVersions(NamedTuple):
    """The versions of the record keys of one kind of group."""

    epoch: int
    member: int
    target_epoch: int
    target: int
    current: int


class ModernGroup(abc.ABC, Generic[AssignmentT]):
    __slots__ = (
        "assignment_epoch",
        "checked_version",
        "currents",
        "epoch",
        "group_id",
        "members",
        "metadata_hash",
        "targets",
    )

    kind: ClassVar[GroupKind]
    keys: ClassVar[KeyVersions]
    copied: ClassVar[tuple[str, ...]] = ("members", "targets", "currents")
    """The attributes that a copy does not share with its original."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.epoch = 0
        self.metadata_hash = 0
        """A hash of the topics that the group's epoch was computed for."""
        self.assignment_epoch = 0
        """The epoch of the group that the target assignment was computed for."""
        self.members: dict[str, MemberMetadata] = {}
        self.targets: dict[str, PartitionsByTopic] = {}
        self.currents: dict[str, AssignmentT] = {}
        self.checked_version: int | None = None
        """The metadata image that the topics were last compared with. This is volatile."""

    def copy(self) -> Self:
        other = copy.copy(self)
        for name in self.copied:
            setattr(other, name, dict(getattr(self, name)))
        return other

    @property
    def is_empty(self) -> bool:
        return not self.members

    @property
    @abc.abstractmethod
    def state_name(self) -> str:
        """The state as clients see it."""

    @property
    @abc.abstractmethod
    def topics(self) -> frozenset[str]:
        """The topics that the members subscribe to."""

    @abc.abstractmethod
    def current(self, member_id: str) -> AssignmentT:
        """The current assignment; an empty one in epoch 0 for a member that has none."""

    def target(self, member_id: str) -> PartitionsByTopic:
        return self.targets.get(member_id, NO_PARTITIONS)

    def begin_epoch(self, epoch: int, metadata_hash: int) -> None:
        self.epoch = epoch
        self.metadata_hash = metadata_hash

    def set_member(self, member_id: str, member: MemberMetadata | None) -> None:
        put(self.members, member_id, member)

    def set_target(self, member_id: str, target: PartitionsByTopic | None) -> None:
        put(self.targets, member_id, target)

    def set_current(self, member_id: str, current: AssignmentT | None) -> None:
        put(self.currents, member_id, current)

    def describe(self, assignor: str) -> GroupDescription[AssignmentT]:
        members = tuple(
            MemberDescription(member_id, member, self.current(member_id), self.target(member_id))
            for member_id, member in self.members.items()
        )
        return GroupDescription(self.state_name, self.epoch, self.assignment_epoch, assignor, members)

    def tombstones(self) -> list[EncodedRecord]:
        """The records that delete the group. Its own comes last: the others are deleted from a group that exists."""
        group_id, keys = self.group_id, self.keys
        encoded = [encode_key(keys.current, group_id, member_id) for member_id in self.currents]
        encoded += [encode_key(keys.target, group_id, member_id) for member_id in self.targets]
        encoded.append(encode_key(keys.target_epoch, group_id))
        encoded += [encode_key(keys.member, group_id, member_id) for member_id in self.members]
        encoded += self.other_keys()
        encoded.append(encode_key(keys.epoch, group_id))
        return [(key, None) for key in encoded]

    @abc.abstractmethod
    def other_keys(self) -> list[bytes]:
        """The keys of the records that only this kind of group has."""


GroupT = TypeVar("GroupT", bound=ModernGroup[Any])
Value = TypeVar("Value")


class RecordFormats(NamedTuple, Generic[AssignmentT]):
    """How the record values of one kind of group are written and read, where the kinds differ."""

    encode_epoch: Callable[[int, int], bytes]
    decode_epoch: Callable[[bytes], tuple[int, int]]
    encode_member: Callable[[MemberMetadata], bytes]
    decode_member: Callable[[bytes], MemberMetadata]
    encode_current: Callable[[AssignmentT], bytes]
    decode_current: Callable[[bytes], AssignmentT]


class ModernGroups(Generic[GroupT]):
    """All groups of one kind in a shard. Only replaying records changes them."""

    __slots__ = ("_group_type", "_state", "by_id")

    def __init__(self, state: ShardState, group_type: type[GroupT], formats: RecordFormats[Any]) -> None:
        self._state = state
        self._group_type = group_type
        self.by_id: dict[str, GroupT] = {}
        keys = group_type.keys
        state.replayers[keys.epoch] = lambda key, value: self._replay_epoch(key, value, formats.decode_epoch)
        self.add_replayer(keys.target_epoch, _replay_target_epoch)
        self.add_replayer(keys.member, _setter(group_type.set_member, formats.decode_member))
        self.add_replayer(keys.target, _setter(group_type.set_target, decode_target))
        self.add_replayer(keys.current, _setter(group_type.set_current, formats.decode_current))

    def add_replayer(self, key_version: int, change: Callable[[GroupT, str, bytes | None], None]) -> None:
        """Replay the records of a key version with `change`, which gets the group, the name in the key, and the value."""

        def replay(key: bytes, value: bytes | None) -> None:
            group_id, name = decode_key(key)
            group = self.by_id.get(group_id) if value is None else self._get_or_create(group_id)
            if group is not None:
                change(group, name, value)

        self._state.replayers[key_version] = replay

    def find(self, group_id: str, missing: str = "Group {} not found.") -> GroupT:
        """The group; ApiError where there is none of this kind."""
        group = self.by_id.get(group_id)
        if group is None:
            is_other = self._state.kind_of(group_id) is not None
            message = f"Group {{}} is not a {self._group_type.kind} group." if is_other else missing
            raise ApiError(ErrorCode.group_id_not_found, message.format(group_id))
        return group

    def find_or_draft(self, group_id: str) -> GroupT:
        """The group, or a new one that exists from its first record on; ApiError where one of another kind exists."""
        if self._state.kind_of(group_id) is None:
            return self._group_type(group_id)
        return self.find(group_id)

    def _replay_epoch(self, key: bytes, value: bytes | None, decode_epoch: Callable[[bytes], tuple[int, int]]) -> None:
        group_id, _ = decode_key(key)
        if value is not None:
            self._get_or_create(group_id).begin_epoch(*decode_epoch(value))
        elif self.by_id.pop(group_id, None) is not None:
            self._state.release(group_id)

    def _get_or_create(self, group_id: str) -> GroupT:
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = self._group_type(group_id)
            self._state.claim(group_id, group)
        return group


class ModernDraft(Generic[GroupT, AssignmentT]):
    """A group as it will be once the records of a command are replayed. The group itself stays as it is."""

    __slots__ = ("_is_copy", "group", "records")

    formats: ClassVar[RecordFormats[Any]]

    def __init__(self, group: GroupT, first_records: list[EncodedRecord] | None = None) -> None:
        self.group = group
        self.records: list[EncodedRecord] = first_records or []
        self._is_copy = False

    def put_epoch(self, epoch: int, metadata_hash: int) -> None:
        group = self.change(self.group.keys.epoch, None, self.formats.encode_epoch(epoch, metadata_hash))
        group.begin_epoch(epoch, metadata_hash)

    def put_target_epoch(self, epoch: int, now_ms: int) -> None:
        group = self.change(self.group.keys.target_epoch, None, encode_target_epoch(epoch, now_ms))
        group.assignment_epoch = epoch

    def put_member(self, member_id: str, member: MemberMetadata | None) -> None:
        value = None if member is None else self.formats.encode_member(member)
        self.change(self.group.keys.member, member_id, value).set_member(member_id, member)

    def put_target(self, member_id: str, target: PartitionsByTopic | None) -> None:
        value = None if target is None else encode_target(target)
        self.change(self.group.keys.target, member_id, value).set_target(member_id, target)

    def put_current(self, member_id: str, current: AssignmentT | None) -> None:
        value = None if current is None else self.formats.encode_current(current)
        self.change(self.group.keys.current, member_id, value).set_current(member_id, current)

    def remove_member(self, member_id: str) -> None:
        self.put_current(member_id, None)
        self.put_target(member_id, None)
        self.put_member(member_id, None)

    def change(self, key_version: int, name: str | None, value: bytes | None) -> GroupT:
        """Add a record, and return the copy of the group that it applies to."""
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True
        self.records.append((encode_key(key_version, self.group.group_id, name), value))
        return self.group


def put(entries: dict[str, Value], name: str, value: Value | None) -> None:
    """Set an entry, or delete it where the value is None."""
    if value is None:
        entries.pop(name, None)
    else:
        entries[name] = value


def _setter(
    set_value: Callable[[GroupT, str, Value | None], None], decode: Callable[[bytes], Value]
) -> Callable[[GroupT, str, bytes | None], None]:
    def change(group: GroupT, name: str, value: bytes | None) -> None:
        set_value(group, name, None if value is None else decode(value))

    return change


def _replay_target_epoch(group: ModernGroup[Any], _: str, value: bytes | None) -> None:
    group.assignment_epoch = 0 if value is None else decode_target_epoch(value)
