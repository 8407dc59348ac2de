"""The time-outs of members, and their removal: they leave, miss heartbeats, or do not revoke partitions in time.

Every removal begins a new group epoch, and the next heartbeat computes the new target. When the last member that uses the
consumer protocol is removed, the remaining ones become a classic group.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kio.schema.errors import ErrorCode

from catchment.coordination.groups.classic.commands import NO_MEMBER, LeavingMember
from catchment.coordination.groups.consumer.assignment import AssignmentBuilder
from catchment.coordination.groups.consumer.commands import ConsumerGroupLimits, HeartbeatReply, HeartbeatResponse
from catchment.coordination.groups.consumer.conversion import Conversion
from catchment.coordination.groups.consumer.group import STATIC_LEAVING, ConsumerGroup, CurrentAssignment, MemberState
from catchment.coordination.groups.consumer.records import ConsumerGroups, Draft
from catchment.coordination.groups.modern import LEAVING, MemberMetadata
from catchment.coordination.groups.state import ShardState
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError

_KINDS = ("session", "rebalance", "rejoin", "sync")


class MemberSessions:
    __slots__ = ("_assignments", "_conversion", "_groups", "_limits", "_state")

    def __init__(
        self,
        state: ShardState,
        groups: ConsumerGroups,
        limits: ConsumerGroupLimits,
        assignments: AssignmentBuilder,
        conversion: Conversion,
    ) -> None:
        self._state = state
        self._groups = groups
        self._limits = limits
        self._assignments = assignments
        self._conversion = conversion

    def start_all(self, now: Moment) -> None:
        """Start the time-outs of all members after a replay: each gets its full session and rebalance time-out again."""
        for group in self._groups.by_id.values():
            for member_id, member in group.members.items():
                self.start_session(group.group_id, member_id, member, now)
                self.start_revocation_timeout(group.group_id, member_id, member, group.current(member_id), now)

    def start_session(self, group_id: str, member_id: str, member: MemberMetadata, now: Moment) -> None:
        """Remove the member unless it sends a request within its session time-out, counted from now."""
        classic = member.classic
        timeout_ms = (
            self._limits.timing_of(group_id).session_timeout_ms if classic is None else classic.session_timeout_ms
        )
        self.start_timeout("session", group_id, member_id, timeout_ms, now)

    def start_revocation_timeout(
        self, group_id: str, member_id: str, member: MemberMetadata, current: CurrentAssignment, now: Moment
    ) -> None:
        """Remove a member that does not revoke its partitions within its rebalance time-out."""
        # A classic member revokes partitions by joining again, and has a separate time-out for that.
        kind = "rebalance" if member.classic is None else "rejoin"
        if current.state is MemberState.UNREVOKED_PARTITIONS:
            epoch = current.epoch
            self._state.timers.set(
                (kind, group_id, member_id),
                now.monotonic_ms + max(member.rebalance_timeout_ms, 0),
                lambda then: self._expire_revocation(group_id, member_id, epoch, then),
            )
        else:
            self._state.timers.cancel((kind, group_id, member_id))

    def start_timeout(self, kind: str, group_id: str, member_id: str, timeout_ms: int, now: Moment) -> None:
        """Remove the member unless the time-out is restarted or cancelled in time."""
        self._state.timers.set(
            (kind, group_id, member_id),
            now.monotonic_ms + timeout_ms,
            lambda then: self._expire(group_id, member_id, then),
        )

    def cancel_timers(self, group_id: str, member_id: str) -> None:
        for kind in _KINDS:
            self._state.timers.cancel((kind, group_id, member_id))

    def leave(
        self, group_id: str, member_id: str, instance_id: str | None, epoch: int, reply: HeartbeatReply, now: Moment
    ) -> None:
        """Remove the member of a heartbeat with a leave epoch; ApiError if there is no such member."""
        group = self._groups.find(group_id)
        group.check_member(member_id, instance_id)
        answer = HeartbeatResponse(ErrorCode.none, None, member_id, epoch)
        if epoch == STATIC_LEAVING:
            self._leave_temporarily(group, member_id, answer, reply)
            return
        self.remove(
            group,
            [member_id],
            now,
            committed=lambda: reply(answer._replace(epoch=LEAVING)),
            failed=lambda error: reply(HeartbeatResponse(error)),
        )

    def leave_classic(self, group_id: str, leaving: Sequence[LeavingMember], now: Moment) -> list[ErrorCode]:
        """LeaveGroup in a consumer group: an error code for each member."""
        group = self._groups.find(group_id)
        outcomes: list[ErrorCode] = []
        gone: list[str] = []
        for one in leaving:
            try:
                gone.append(_leaving_id(group, one))
                outcomes.append(ErrorCode.none)
            except ApiError as error:
                outcomes.append(error.code)
        if gone:
            self.remove(group, list(dict.fromkeys(gone)), now)
        return outcomes

    def remove(
        self,
        group: ConsumerGroup,
        member_ids: Sequence[str],
        now: Moment,
        committed: Callable[[], None] = lambda: None,
        failed: Callable[[ErrorCode], None] = lambda _: None,
    ) -> None:
        for member_id in member_ids:
            self.cancel_timers(group.group_id, member_id)
        remaining = [member_id for member_id in group.members if member_id not in member_ids]
        if self._conversion.can_downgrade(group, remaining):
            self._conversion.downgrade(group, remaining, now, committed, failed)
            return
        draft = Draft(group)
        for member_id in member_ids:
            draft.remove_member(member_id)
        self._assignments.drop_unused_regexes(draft)
        self._assignments.refresh(draft, now, has_changed=True)
        self._assignments.mark_checked(group)
        self._state.write(draft.records, committed=lambda _: committed(), failed=lambda error, _: failed(error))

    def _leave_temporarily(
        self, group: ConsumerGroup, member_id: str, answer: HeartbeatResponse, reply: HeartbeatReply
    ) -> None:
        """Keep the assignment of a static member that leaves temporarily, until its session expires."""
        draft = Draft(group)
        draft.put_current(member_id, group.current(member_id).at_epoch(STATIC_LEAVING))
        self._state.write(
            draft.records,
            committed=lambda _: reply(answer),
            failed=lambda error, _: reply(HeartbeatResponse(error)),
        )

    def _expire(self, group_id: str, member_id: str, now: Moment) -> None:
        group = self._groups.by_id.get(group_id)
        if group is not None and member_id in group.members:
            self.remove(group, [member_id], now)

    def _expire_revocation(self, group_id: str, member_id: str, epoch: int, now: Moment) -> None:
        group = self._groups.by_id.get(group_id)
        if group is not None and member_id in group.members and group.current(member_id).epoch == epoch:
            self.remove(group, [member_id], now)


def _leaving_id(group: ConsumerGroup, leaving: LeavingMember) -> str:
    member_id = leaving.member_id
    if member_id == NO_MEMBER and leaving.instance_id is not None:
        # An administrator identifies a static member by its instance id alone, whatever protocol it uses.
        member_id = group.static_ids.get(leaving.instance_id, NO_MEMBER)
        group.check_member(member_id, leaving.instance_id)
    elif group.check_member(member_id, leaving.instance_id).classic is None:
        raise ApiError(ErrorCode.unknown_member_id, "The member uses the consumer protocol.")
    return member_id
