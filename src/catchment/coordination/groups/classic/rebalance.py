"""Rebalances of classic groups: from one generation to the next.

A rebalance waits until every member has joined again, at most for the longest rebalance time-out among them. Dynamic members
that have not joined by then are removed; static members stay until their session expires. A group that was empty waits
`group.initial.rebalance.delay.ms` for more members. Then the leader gets the metadata of all members, and has the same time to
send the assignments.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import EncodedRecord
from catchment.coordination.groups.classic.commands import SyncResponse
from catchment.coordination.groups.classic.group import Group, GroupState, Member
from catchment.coordination.groups.records import GroupKey, encode_group, encode_group_key
from catchment.coordination.groups.state import ShardState
from catchment.coordination.timers import Moment

NEW_MEMBER_TIMEOUT_MS = 300_000
"""A member whose first join waits sends no heartbeats and may be gone: it is removed after this time, as in Kafka."""

_SETTLED = (GroupState.EMPTY, GroupState.STABLE, GroupState.COMPLETING)


class Rebalance:
    __slots__ = ("_state",)

    def __init__(self, state: ShardState) -> None:
        self._state = state

    def start_session(self, group: Group, member: Member, now: Moment) -> None:
        """Remove the member unless it sends a request within its session time-out, counted from now."""
        timeout_ms = NEW_MEMBER_TIMEOUT_MS if member.is_new else member.session_timeout_ms
        self.start_timeout(group.group_id, member.member_id, timeout_ms, now)

    def start_timeout(self, group_id: str, member_id: str, timeout_ms: int, now: Moment) -> None:
        self._state.timers.set(
            ("session", group_id, member_id),
            now.monotonic_ms + timeout_ms,
            lambda then: self._expire_session(group_id, member_id, then),
        )

    def end_session(self, group_id: str, member_id: str) -> None:
        self._state.timers.cancel(("session", group_id, member_id))

    def advance(self, group: Group, now: Moment) -> None:
        """A member joined, left or changed: begin a rebalance, or check whether the current one can end."""
        if group.state in _SETTLED:
            self.begin(group, now)
        else:
            self.check_joined(group, now)

    def begin(self, group: Group, now: Moment) -> None:
        for member in group.members.values():
            member.answer_sync(SyncResponse(ErrorCode.rebalance_in_progress))
        self._state.timers.cancel(("sync", group.group_id, ""))
        group.is_initial_rebalance = group.state is GroupState.EMPTY
        group.move_to(GroupState.PREPARING, now.wall_ms)
        if group.is_initial_rebalance:
            delay_ms = self._state.limits.initial_rebalance_delay_ms
            self._wait_for_more_members(group, delay_ms, max(group.rebalance_timeout_ms - delay_ms, 0), now)
        else:
            self.check_joined(group, now)

    def check_joined(self, group: Group, now: Moment) -> None:
        """End the join phase if all members have joined. The initial rebalance waits for its delay in any case."""
        if group.state is not GroupState.PREPARING or group.is_initial_rebalance:
            return
        if group.have_all_joined:
            self._complete_join(group, now)
        elif ("join", group.group_id, "") not in self._state.timers:
            self._await_joins(group, now)

    def remove(self, group: Group, member: Member, now: Moment) -> None:
        """Remove a member, and rebalance among the others."""
        self.end_session(group.group_id, member.member_id)
        group.remove(member)
        if group.state is not GroupState.EMPTY:
            self.advance(group, now)

    def drop_pending(self, group: Group, member_id: str, now: Moment) -> None:
        """Remove a member id that was assigned and not used."""
        self.end_session(group.group_id, member_id)
        group.pending_ids.pop(member_id, None)
        self.check_joined(group, now)
        self._state.remove_if_idle(group.group_id)

    def record(self, group: Group, assignments: dict[str, bytes], now: Moment) -> EncodedRecord:
        record = group.to_record(assignments, now.wall_ms)
        return encode_group_key(GroupKey(group.group_id)), encode_group(record)

    def _wait_for_more_members(self, group: Group, delay_ms: int, remaining_ms: int, now: Moment) -> None:
        self._state.timers.set(
            ("join", group.group_id, ""),
            now.monotonic_ms + delay_ms,
            lambda then: self._end_initial_delay(group, remaining_ms, then),
        )

    def _end_initial_delay(self, group: Group, remaining_ms: int, now: Moment) -> None:
        if group.state is not GroupState.PREPARING:
            return
        if group.has_new_members and remaining_ms > 0:
            group.has_new_members = False
            delay_ms = min(self._state.limits.initial_rebalance_delay_ms, remaining_ms)
            self._wait_for_more_members(group, delay_ms, remaining_ms - delay_ms, now)
        else:
            self._complete_join(group, now)

    def _await_joins(self, group: Group, now: Moment) -> None:
        self._state.timers.set(
            ("join", group.group_id, ""),
            now.monotonic_ms + group.rebalance_timeout_ms,
            lambda then: self._complete_join(group, then),
        )

    def _complete_join(self, group: Group, now: Moment) -> None:
        if group.state is not GroupState.PREPARING:
            return
        self._state.timers.cancel(("join", group.group_id, ""))
        for member in list(group.members.values()):
            if member.joining is None and not member.is_static:
                self.end_session(group.group_id, member.member_id)
                group.remove(member)
        if group.members and not group.elect_joined_leader():
            # Only static members are left, and none has joined: they stay until their sessions expire.
            self._await_joins(group, now)
            return
        group.is_initial_rebalance = False
        group.begin_generation(now.wall_ms)
        if not group.members:
            self._state.write([self.record(group, {}, now)])
            return
        for member in group.members.values():
            member.answer_join(group.join_response(member))
            member.is_new = False
            group.pending_syncs[member.member_id] = None
            self.start_session(group, member, now)
        generation = group.generation
        self._state.timers.set(
            ("sync", group.group_id, ""),
            now.monotonic_ms + group.rebalance_timeout_ms,
            lambda then: self._expire_syncs(group, generation, then),
        )

    def _expire_syncs(self, group: Group, generation: int, now: Moment) -> None:
        """Remove the members that never sent SyncGroup; the leader may be one of them."""
        if group.generation != generation or group.state not in (GroupState.COMPLETING, GroupState.STABLE):
            return
        if not group.pending_syncs:
            return
        for member_id in list(group.pending_syncs):
            self.end_session(group.group_id, member_id)
            group.remove(group.members[member_id])
        self.begin(group, now)

    def _expire_session(self, group_id: str, member_id: str, now: Moment) -> None:
        group = self._state.groups.get(group_id)
        if group is None:
            return
        if member_id in group.pending_ids:
            self.drop_pending(group, member_id, now)
            return
        member = group.members.get(member_id)
        if member is not None and (member.is_new or not member.is_waiting):
            self.remove(group, member, now)
