"""SyncGroup, Heartbeat and LeaveGroup: what a member does between two joins.

The leader's assignments are logged before anybody gets one. While that write is on its way the group is not stable yet, so
members that ask in the meantime wait with the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from catchment.coordination.commands import NO_MEMBER, LeavingMember, SyncAnswer, SyncReply, SyncRequest
from catchment.coordination.group import Group, GroupState
from catchment.coordination.members import Member
from catchment.coordination.rebalance import Rebalance
from catchment.coordination.shard_state import ShardState
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError


class Membership:
    __slots__ = ("_rebalance", "_state")

    def __init__(self, state: ShardState, rebalance: Rebalance) -> None:
        self._state = state
        self._rebalance = rebalance

    def sync(self, request: SyncRequest, reply: SyncReply, now: Moment) -> None:
        try:
            group = self._state.existing(request.group_id)
            member = self._check_sync(group, request)
        except ApiError as error:
            reply(SyncAnswer(error.code))
            return
        group.missing_syncs.pop(member.member_id, None)
        if group.state is GroupState.STABLE:
            self._rebalance.start_session(group, member, now)
            reply(_assignment(group, member))
            return
        member.wait_for_sync(reply)
        if member.member_id == group.leader_id:
            generation = group.generation
            assignments = {id_: request.assignments.get(id_, b"") for id_ in group.members}
            self._state.write(
                [self._rebalance.record(group, assignments, now)],
                committed=lambda then: self._assigned(group, generation, assignments, then),
                failed=lambda error, then: self._assignment_failed(group, generation, error, then),
            )

    def heartbeat(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None, now: Moment
    ) -> ErrorCode:
        try:
            group = self._state.existing(group_id)
            member = group.check_member(member_id, instance_id)
        except ApiError as error:
            return error.code
        if generation != group.generation:
            return ErrorCode.illegal_generation
        self._rebalance.start_session(group, member, now)
        return ErrorCode.rebalance_in_progress if group.state is GroupState.PREPARING else ErrorCode.none

    def leave(self, group_id: str, leaving: Sequence[LeavingMember], now: Moment) -> list[ErrorCode]:
        """What became of each who wants to leave; the others rebalance once for all of them."""
        group = self._state.groups.get(group_id)
        if group is None:
            return [ErrorCode.unknown_member_id] * len(leaving)
        outcomes: list[ErrorCode] = []
        has_lost_members = False
        for one in leaving:
            try:
                has_lost_members |= self._leave(group, one, now)
                outcomes.append(ErrorCode.none)
            except ApiError as error:
                outcomes.append(error.code)
        if has_lost_members and group.state is not GroupState.EMPTY:
            self._rebalance.advance(group, now)
        return outcomes

    def _check_sync(self, group: Group, request: SyncRequest) -> Member:
        member = group.check_member(request.member_id, request.instance_id)
        if request.generation != group.generation:
            raise ApiError(ErrorCode.illegal_generation)
        for asked, actual in (
            (request.protocol_type, group.protocol_type),
            (request.protocol_name, group.protocol_name),
        ):
            if asked is not None and asked != actual:
                raise ApiError(ErrorCode.inconsistent_group_protocol)
        if group.state is GroupState.PREPARING:
            raise ApiError(ErrorCode.rebalance_in_progress)
        return member

    def _assigned(self, group: Group, generation: int, assignments: dict[str, bytes], now: Moment) -> None:
        if group.state is not GroupState.COMPLETING or group.generation != generation:
            return
        group.move_to(GroupState.STABLE, now.wall_ms)
        for member in group.members.values():
            member.assignment = assignments.get(member.member_id, b"")
            if member.syncing is not None:
                self._rebalance.start_session(group, member, now)
                member.answer_sync(_assignment(group, member))

    def _assignment_failed(self, group: Group, generation: int, error: ErrorCode, now: Moment) -> None:
        if group.state is not GroupState.COMPLETING or group.generation != generation:
            return
        for member in group.members.values():
            member.assignment = b""
            member.answer_sync(SyncAnswer(error))
        self._rebalance.begin(group, now)

    def _leave(self, group: Group, leaving: LeavingMember, now: Moment) -> bool:
        """Whether the group has a member less now; an id that nobody used yet makes no difference."""
        if leaving.member_id in group.pending_ids:
            if leaving.instance_id is not None:
                raise ApiError(ErrorCode.unknown_member_id)
            self._rebalance.drop_pending(group, leaving.member_id, now)
            return False
        member_id = leaving.member_id
        if member_id == NO_MEMBER and leaving.instance_id is not None:
            # An administrator names a static member by its instance id alone.
            member_id = group.static_ids.get(leaving.instance_id, NO_MEMBER)
        member = group.check_member(member_id, leaving.instance_id)
        self._rebalance.end_session(group.group_id, member_id)
        group.remove(member)
        return True


def _assignment(group: Group, member: Member) -> SyncAnswer:
    return SyncAnswer(ErrorCode.none, group.protocol_type, group.protocol_name, member.assignment)
