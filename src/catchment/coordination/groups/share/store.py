"""The share groups of a shard as their records tell them, and drafts of what a group is to become."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import EncodedRecord
from catchment.coordination.groups.modern_records import (
    decode_key,
    decode_target,
    decode_target_epoch,
    encode_key,
    encode_target,
    encode_target_epoch,
)
from catchment.coordination.groups.share import records
from catchment.coordination.groups.share.group import (
    CURRENT_KEY,
    EPOCH_KEY,
    MEMBER_KEY,
    PARTITIONS_KEY,
    TARGET_EPOCH_KEY,
    TARGET_KEY,
    Partitions,
    ShareAssignment,
    ShareGroup,
    ShareMember,
    StatePartitions,
)
from catchment.coordination.groups.state import ShardState
from catchment.protocol.errors import ApiError

Value = TypeVar("Value")
_Change = Callable[[ShareGroup, str, bytes | None], None]


class ShareGroups:
    """All share groups of a shard; only `replay` changes them."""

    __slots__ = ("_state", "by_id")

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self.by_id: dict[str, ShareGroup] = {}
        for version, change in _CHANGES.items():
            state.replayers[version] = self._replayer(change)
        state.replayers[EPOCH_KEY] = self._replay_epoch

    def find(self, group_id: str, missing: str = "Group {} not found.") -> ShareGroup:
        """The group; ApiError where there is none of this kind."""
        group = self.by_id.get(group_id)
        if group is None:
            is_other = self._state.kind_of(group_id) is not None
            message = "Group {} is not a share group." if is_other else missing
            raise ApiError(ErrorCode.group_id_not_found, message.format(group_id))
        return group

    def find_or_draft(self, group_id: str) -> ShareGroup:
        """The group, or one that begins to exist with its first record; ApiError where one of another kind exists."""
        if self._state.kind_of(group_id) is None:
            return ShareGroup(group_id)
        return self.find(group_id)

    def _replayer(self, change: _Change) -> Callable[[bytes, bytes | None], None]:
        def replay(key: bytes, value: bytes | None) -> None:
            group_id, name = decode_key(key)
            group = self.by_id.get(group_id) if value is None else self._get_or_create(group_id)
            if group is not None:
                change(group, name, value)

        return replay

    def _replay_epoch(self, key: bytes, value: bytes | None) -> None:
        group_id, _ = decode_key(key)
        if value is not None:
            group = self._get_or_create(group_id)
            group.begin_epoch(*records.decode_epoch(value))
        elif self.by_id.pop(group_id, None) is not None:
            self._state.release(group_id)

    def _get_or_create(self, group_id: str) -> ShareGroup:
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = ShareGroup(group_id)
            self._state.claim(group_id, group)
        return group


def _replay_member(group: ShareGroup, member_id: str, value: bytes | None) -> None:
    _put(group.members, member_id, None if value is None else records.decode_member(value))


def _replay_target_epoch(group: ShareGroup, _: str, value: bytes | None) -> None:
    group.assignment_epoch = 0 if value is None else decode_target_epoch(value)


def _replay_target(group: ShareGroup, member_id: str, value: bytes | None) -> None:
    _put(group.targets, member_id, None if value is None else decode_target(value))


def _replay_current(group: ShareGroup, member_id: str, value: bytes | None) -> None:
    _put(group.currents, member_id, None if value is None else records.decode_current(value))


def _replay_partitions(group: ShareGroup, _: str, value: bytes | None) -> None:
    group.partitions = StatePartitions() if value is None else records.decode_partitions(value)


_CHANGES: dict[int, _Change] = {
    MEMBER_KEY: _replay_member,
    TARGET_EPOCH_KEY: _replay_target_epoch,
    TARGET_KEY: _replay_target,
    CURRENT_KEY: _replay_current,
    PARTITIONS_KEY: _replay_partitions,
}


class Draft:
    """A group as it will be once the records of a command are replayed; the group itself stays as it is."""

    __slots__ = ("_is_copy", "group", "records")

    def __init__(self, group: ShareGroup) -> None:
        self.group = group
        self.records: list[EncodedRecord] = []
        self._is_copy = False

    def put_epoch(self, epoch: int, metadata_hash: int) -> None:
        group = self._change(EPOCH_KEY, None, records.encode_epoch(epoch, metadata_hash))
        group.begin_epoch(epoch, metadata_hash)

    def put_target_epoch(self, epoch: int, now_ms: int) -> None:
        self._change(TARGET_EPOCH_KEY, None, encode_target_epoch(epoch, now_ms)).assignment_epoch = epoch

    def put_member(self, member_id: str, member: ShareMember) -> None:
        self._change(MEMBER_KEY, member_id, records.encode_member(member)).members[member_id] = member

    def put_target(self, member_id: str, target: Partitions) -> None:
        self._change(TARGET_KEY, member_id, encode_target(target)).targets[member_id] = target

    def put_current(self, member_id: str, current: ShareAssignment) -> None:
        self._change(CURRENT_KEY, member_id, records.encode_current(current)).currents[member_id] = current

    def put_partitions(self, partitions: StatePartitions) -> None:
        self._change(PARTITIONS_KEY, None, records.encode_partitions(partitions)).partitions = partitions

    def remove_member(self, member_id: str) -> None:
        """Delete the member, and let the next heartbeat share out what it had."""
        group = self._change(CURRENT_KEY, member_id, None)
        group.currents.pop(member_id, None)
        self._change(TARGET_KEY, member_id, None).targets.pop(member_id, None)
        self._change(MEMBER_KEY, member_id, None).members.pop(member_id, None)
        self.put_epoch(group.epoch + 1, group.metadata_hash)

    def _change(self, version: int, name: str | None, value: bytes | None) -> ShareGroup:
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True
        self.records.append((encode_key(version, self.group.group_id, name), value))
        return self.group


def _put(entries: dict[str, Value], name: str, value: Value | None) -> None:
    if value is None:
        entries.pop(name, None)
    else:
        entries[name] = value
