"""What one shard of the group coordinator holds: the groups whose records lie in one partition of `__consumer_offsets`.

`logged` and `offsets` are what the log says, and only `replay` changes them. `groups` and `timers` are volatile: rebalances
under way, sessions and waiting requests. A shard that replays the log from the start has the same logged state, and groups
that are as stable, or as empty, as their last record says.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from catchment.coordination.commands import GroupLimits
from catchment.coordination.group import Group, GroupState
from catchment.coordination.group_records import (
    GroupKey,
    GroupRecord,
    OffsetKey,
    decode_group,
    decode_key,
    decode_offset,
)
from catchment.coordination.offsets import CommittedOffsets
from catchment.coordination.replayed import Decisions
from catchment.protocol.errors import ApiError


class ShardState(Decisions):
    __slots__ = ("groups", "limits", "logged", "offsets")

    def __init__(self, limits: GroupLimits) -> None:
        super().__init__()
        self.limits = limits
        self.logged: dict[str, GroupRecord] = {}
        self.offsets = CommittedOffsets()
        self.groups: dict[str, Group] = {}

    def replay(self, key: bytes, value: bytes | None) -> None:
        """Take on what a record of the log says."""
        subject = decode_key(key)
        if isinstance(subject, OffsetKey):
            self.offsets.replay(subject, None if value is None else decode_offset(value))
            self._follow(subject.group_id)
        elif isinstance(subject, GroupKey):
            if value is None:
                self.logged.pop(subject.group_id, None)
            else:
                self.logged[subject.group_id] = decode_group(value)
            self._follow(subject.group_id)

    def rebuild_groups(self) -> None:
        """Make the groups that the log describes, once all of it is replayed."""
        for group_id, record in self.logged.items():
            self.groups[group_id] = Group.from_record(group_id, record)

    def existing(self, group_id: str, otherwise: ErrorCode = ErrorCode.unknown_member_id) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            raise ApiError(otherwise, f"There is no group '{group_id}'.")
        return group

    def get_or_make(self, group_id: str) -> Group:
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id)
        return group

    def forget_if_idle(self, group_id: str) -> None:
        """Drop a group of which neither the log nor any client knows."""
        group = self.groups.get(group_id)
        if group is not None and group.is_idle and group_id not in self.logged and group_id not in self.offsets:
            group.move_to(GroupState.DEAD, group.state_time_ms)
            del self.groups[group_id]

    def _follow(self, group_id: str) -> None:
        """A group exists from its first record to its last."""
        if group_id in self.logged or group_id in self.offsets:
            self.get_or_make(group_id)
        else:
            self.forget_if_idle(group_id)
