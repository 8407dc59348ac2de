"""ListGroups, DescribeGroups, DeleteGroups, and the committed positions of groups for retention by consumption."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import EncodedRecord
from catchment.coordination.groups.classic.group import GroupState
from catchment.coordination.groups.offset_commands import tombstone
from catchment.coordination.groups.records import GroupKey, OffsetKey, encode_group_key
from catchment.coordination.groups.state import GroupKind, ShardState
from catchment.protocol.errors import ApiError


class ListedGroup(NamedTuple):
    group_id: str
    kind: GroupKind
    protocol_type: str
    state_name: str


class ClassicMemberDescription(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    metadata: bytes
    assignment: bytes


class ClassicGroupDescription(NamedTuple):
    state: GroupState
    protocol_type: str
    protocol_name: str
    members: tuple[ClassicMemberDescription, ...]


class GroupQueries:
    __slots__ = ("_state",)

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def listing(self) -> list[ListedGroup]:
        found = [
            ListedGroup(group.group_id, GroupKind.CLASSIC, group.protocol_type or "", group.state.value)
            for group in self._state.groups.values()
        ]
        for group_id, other in self._state.others.items():
            found.append(ListedGroup(group_id, other.kind, other.kind.value, other.state_name))
        return found

    def describe(self, group_id: str) -> ClassicGroupDescription:
        """Describe the group, with metadata and assignments only while it is stable. ApiError if there is none."""
        group = self._state.existing(group_id, ErrorCode.group_id_not_found)
        is_stable = group.state is GroupState.STABLE
        members = tuple(
            ClassicMemberDescription(
                member.member_id,
                member.instance_id,
                member.client_id,
                member.client_host,
                member.metadata(group.protocol_name) if is_stable else b"",
                member.assignment if is_stable else b"",
            )
            for member in group.members.values()
        )
        protocol_name = group.protocol_name if is_stable else None
        return ClassicGroupDescription(group.state, group.protocol_type or "", protocol_name or "", members)

    def delete(self, group_id: str, reply: Callable[[ErrorCode], None]) -> None:
        """Delete an empty group with all its offsets."""
        try:
            if not group_id:
                raise ApiError(ErrorCode.invalid_group_id)
            records = self._deletion(group_id)
        except ApiError as error:
            reply(error.code)
            return
        offsets = dict.fromkeys(
            (*self._state.offsets.of_group(group_id), *sorted(self._state.pending_offsets.of_group(group_id)))
        )
        records = [tombstone(OffsetKey(group_id, *partition)) for partition in offsets] + records
        if not records:
            self._state.remove_if_idle(group_id)
            reply(ErrorCode.none)
            return
        self._state.write(records, committed=lambda _: reply(ErrorCode.none), failed=lambda error, _: reply(error))

    def _deletion(self, group_id: str) -> list[EncodedRecord]:
        """The records that delete the group itself; ApiError if it has members or does not exist."""
        other = self._state.others.get(group_id)
        if other is not None:
            if not other.is_empty:
                raise ApiError(ErrorCode.non_empty_group)
            return other.tombstones()
        group = self._state.existing(group_id, ErrorCode.group_id_not_found)
        if group.state is not GroupState.EMPTY:
            raise ApiError(ErrorCode.non_empty_group)
        group.pending_ids.clear()
        return [(encode_group_key(GroupKey(group_id)), None)] if group_id in self._state.logged else []


Positions = Mapping[int, int]
"""The committed offset of each partition that has one."""


class Consumed:
    __slots__ = ("_state",)

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def positions(self, topic: str) -> dict[str, Positions]:
        """The committed offsets of each group that consumes the topic.

        A group consumes a topic if it has committed an offset of it, or if its members subscribe to it. Groups whose
        subscriptions are unknown are included. Share groups keep their positions elsewhere.
        """
        found: dict[str, Positions] = {}
        for group_id, group in self._state.groups.items():
            committed = self._committed(group_id, topic)
            topics = group.topics if group.members else frozenset()
            if committed or topics is None or topic in topics:
                found[group_id] = committed
        for group_id, other in self._state.others.items():
            committed = self._committed(group_id, topic)
            if other.kind is not GroupKind.SHARE and (committed or topic in other.topics):
                found[group_id] = committed
        return found

    def _committed(self, group_id: str, topic: str) -> Positions:
        return {
            partition: offset.offset
            for (name, partition), offset in self._state.offsets.of_group(group_id).items()
            if name == topic
        }


def floors(groups: Mapping[str, Positions], named: tuple[str, ...], partition_count: int) -> list[int]:
    """For each partition, the offset below which all named groups have consumed everything."""
    counted = list(groups) if EVERY_GROUP in named else list(named)
    if not counted:
        return [0] * partition_count
    return [
        min(groups.get(group_id, {}).get(partition, 0) for group_id in counted) for partition in range(partition_count)
    ]


EVERY_GROUP = "*"
