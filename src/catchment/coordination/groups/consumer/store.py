"""The consumer groups of a shard as their records tell them, and drafts of what a group is to become."""

from __future__ import annotations

from collections.abc import Callable

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import EncodedRecord
from catchment.coordination.groups.consumer import records
from catchment.coordination.groups.consumer.group import ConsumerGroup
from catchment.coordination.groups.consumer.members import CurrentAssignment, MemberMetadata, ResolvedRegex, Target
from catchment.coordination.groups.modern_records import (
    decode_key,
    decode_target,
    decode_target_epoch,
    encode_key,
    encode_target,
    encode_target_epoch,
)
from catchment.coordination.groups.state import ShardState
from catchment.protocol.errors import ApiError

_Change = Callable[[ConsumerGroup, str, bytes | None], None]


class ConsumerGroups:
    """All consumer groups of a shard; only `replay` changes them."""

    __slots__ = ("_state", "by_id")

    def __init__(self, state: ShardState) -> None:
        self._state = state
        self.by_id: dict[str, ConsumerGroup] = {}
        for version, change in _CHANGES.items():
            state.replayers[version] = self._replayer(change)
        state.replayers[records.EPOCH_KEY] = self._replay_epoch

    def find(self, group_id: str) -> ConsumerGroup:
        """The group; ApiError where there is none of this kind."""
        group = self.by_id.get(group_id)
        if group is None:
            what = "not found" if self._state.kind_of(group_id) is None else "is not a consumer group"
            raise ApiError(ErrorCode.group_id_not_found, f"Group {group_id} {what}.")
        return group

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
            group.epoch, group.metadata_hash = records.decode_epoch(value)
        elif self.by_id.pop(group_id, None) is not None:
            self._state.release(group_id)

    def _get_or_create(self, group_id: str) -> ConsumerGroup:
        group = self.by_id.get(group_id)
        if group is None:
            group = self.by_id[group_id] = ConsumerGroup(group_id)
            self._state.claim(group_id, group)
        return group


def _replay_member(group: ConsumerGroup, member_id: str, value: bytes | None) -> None:
    group.set_member(member_id, None if value is None else records.decode_member(value))


def _replay_target_epoch(group: ConsumerGroup, _: str, value: bytes | None) -> None:
    group.assignment_epoch = 0 if value is None else decode_target_epoch(value)


def _replay_target(group: ConsumerGroup, member_id: str, value: bytes | None) -> None:
    group.set_target(member_id, None if value is None else decode_target(value))


def _replay_current(group: ConsumerGroup, member_id: str, value: bytes | None) -> None:
    group.set_current(member_id, None if value is None else records.decode_current(value))


def _replay_regex(group: ConsumerGroup, regex: str, value: bytes | None) -> None:
    group.set_regex(regex, None if value is None else records.decode_regex(value))


_CHANGES: dict[int, _Change] = {
    records.MEMBER_KEY: _replay_member,
    records.TARGET_EPOCH_KEY: _replay_target_epoch,
    records.TARGET_KEY: _replay_target,
    records.CURRENT_KEY: _replay_current,
    records.REGEX_KEY: _replay_regex,
}


class Draft:
    """A group as it will be once the records of a command are replayed; the group itself stays as it is."""

    __slots__ = ("_is_copy", "group", "records")

    def __init__(self, group: ConsumerGroup, first_records: list[EncodedRecord] | None = None) -> None:
        self.group = group
        self.records: list[EncodedRecord] = first_records or []
        self._is_copy = False

    def put_epoch(self, epoch: int, metadata_hash: int) -> None:
        group = self._change(records.EPOCH_KEY, None, records.encode_epoch(epoch, metadata_hash))
        group.epoch, group.metadata_hash = epoch, metadata_hash

    def put_target_epoch(self, epoch: int, now_ms: int) -> None:
        group = self._change(records.TARGET_EPOCH_KEY, None, encode_target_epoch(epoch, now_ms))
        group.assignment_epoch = epoch

    def put_member(self, member_id: str, member: MemberMetadata | None) -> None:
        value = None if member is None else records.encode_member(member)
        self._change(records.MEMBER_KEY, member_id, value).set_member(member_id, member)

    def put_target(self, member_id: str, target: Target | None) -> None:
        value = None if target is None else encode_target(target)
        self._change(records.TARGET_KEY, member_id, value).set_target(member_id, target)

    def put_current(self, member_id: str, current: CurrentAssignment | None) -> None:
        value = None if current is None else records.encode_current(current)
        self._change(records.CURRENT_KEY, member_id, value).set_current(member_id, current)

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        value = None if resolved is None else records.encode_regex(resolved)
        self._change(records.REGEX_KEY, regex, value).set_regex(regex, resolved)

    def remove_member(self, member_id: str) -> None:
        self.put_current(member_id, None)
        self.put_target(member_id, None)
        self.put_member(member_id, None)

    def _change(self, version: int, name: str | None, value: bytes | None) -> ConsumerGroup:
        if not self._is_copy:
            self.group = self.group.copy()
            self._is_copy = True
        self.records.append((encode_key(version, self.group.group_id, name), value))
        return self.group
