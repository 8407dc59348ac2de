"""One shard of the group coordinator, as whoever runs it sees it.

Commands change nothing that is logged: they leave records in `take_writes`. The runner appends those, hands each to
`replay` at once, and tells the write's outcome when the high watermark has passed it, or when it cannot be written.
Between commands the runner calls `on_time` when `next_deadline_ms` has come. A shard whose writes failed in a way that
leaves the log in doubt is closed and replaced by one that replays the log.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from catchment.coordination.commands import GroupLimits
from catchment.coordination.group import GroupState
from catchment.coordination.group_queries import GroupQueries
from catchment.coordination.join import Join
from catchment.coordination.membership import Membership
from catchment.coordination.offset_commands import OffsetCommands
from catchment.coordination.rebalance import Rebalance
from catchment.coordination.replayed import NO_PRODUCER, EncodedRecord, Write
from catchment.coordination.shard_state import ShardState
from catchment.coordination.timers import Moment


class GroupShard:
    __slots__ = ("_rebalance", "_state", "_undecided", "groups", "joining", "membership", "offsets")

    def __init__(self, limits: GroupLimits) -> None:
        self._state = ShardState(limits)
        self._rebalance = Rebalance(self._state)
        self.joining = Join(self._state, self._rebalance)
        self.membership = Membership(self._state, self._rebalance)
        self.offsets = OffsetCommands(self._state, self._rebalance)
        self.groups = GroupQueries(self._state)
        self._undecided: dict[int, list[EncodedRecord]] = {}
        """What open transactions have written, by producer."""

    @property
    def state(self) -> ShardState:
        return self._state

    @property
    def next_deadline_ms(self) -> int | None:
        """When `on_time` wants to be called, by the steady clock; None while nobody waits for anything."""
        return self._state.timers.next_deadline_ms

    def take_writes(self) -> list[Write]:
        """What the last calls want to be written, in order."""
        return self._state.take_writes()

    def replay(self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER) -> None:
        if producer_id == NO_PRODUCER:
            self._state.replay(key, value)
        else:
            self._undecided.setdefault(producer_id, []).append((key, value))

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        records = self._undecided.pop(producer_id, [])
        if is_commit:
            for key, value in records:
                self._state.replay(key, value)

    def loaded(self, now: Moment) -> None:
        """All of the log is replayed: bring the groups to life, with a new session for every member."""
        self._state.rebuild_groups()
        for group in self._state.groups.values():
            for member in group.members.values():
                self._rebalance.start_session(group, member, now)
            if group.state is GroupState.STABLE and len(group.members) > self._state.limits.max_size:
                self._rebalance.begin(group, now)

    def on_time(self, now: Moment) -> None:
        self._state.timers.run_due(now)

    def close(self, error: ErrorCode) -> None:
        """Answer everybody who waits: this shard will not."""
        for group in self._state.groups.values():
            for member in list(group.members.values()):
                member.dismiss(error)
        self._state.groups.clear()
