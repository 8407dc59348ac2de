"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup of classic groups.

A new member gets an id first and has to join again with it (KIP-394), so that a member that lost the response leaves nothing
behind. A static member (KIP-345) is identified by its instance id: it rejoins under a new member id without a rebalance, as
long as the group's protocol stays the same.

The leader's assignments are logged before any member gets its own. While that write is in progress the group is not stable
yet, so members that send SyncGroup in the meantime wait with the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import MAX_NAME_BYTES, is_too_long
from catchment.coordination.groups.classic.commands import (
    NO_MEMBER,
    JoinReply,
    JoinRequest,
    JoinResponse,
    LeavingMember,
    SyncReply,
    SyncRequest,
    SyncResponse,
)
from catchment.coordination.groups.classic.group import Group, GroupState, Member
from catchment.coordination.groups.classic.rebalance import Rebalance
from catchment.coordination.groups.state import ShardState
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError


class Membership:
    __slots__ = ("_rebalance", "_state")

    def __init__(self, state: ShardState, rebalance: Rebalance) -> None:
        self._state = state
        self._rebalance = rebalance

    def join(self, request: JoinRequest, reply: JoinReply, now: Moment) -> None:
        try:
            self.check_join(request)
            if request.member_id == NO_MEMBER:
                self._join_new(self._state.get_or_create(request.group_id), request, reply, now)
            else:
                self._join_known(self._state.existing(request.group_id), request, reply, now)
        except ApiError as error:
            self._state.remove_if_idle(request.group_id)
            is_full = error.code is ErrorCode.group_max_size_reached
            reply(JoinResponse(error.code, NO_MEMBER if is_full else request.member_id))

    def check_join(self, request: JoinRequest) -> None:
        """ApiError for a request that is invalid for any group."""
        limits = self._state.limits
        if not request.group_id or is_too_long(request.group_id):
            raise ApiError(ErrorCode.invalid_group_id)
        names = (
            request.instance_id,
            request.client_id,
            request.protocol_type,
            *(name for name, _ in request.protocols),
        )
        if any(map(is_too_long, names)):
            raise ApiError(ErrorCode.invalid_request, f"A name in the request is longer than {MAX_NAME_BYTES} bytes.")
        if not limits.min_session_timeout_ms <= request.session_timeout_ms <= limits.max_session_timeout_ms:
            raise ApiError(ErrorCode.invalid_session_timeout)

    def sync(self, request: SyncRequest, reply: SyncReply, now: Moment) -> None:
        try:
            group = self._state.existing(request.group_id)
            member = self._check_sync(group, request)
        except ApiError as error:
            reply(SyncResponse(error.code))
            return
        group.pending_syncs.pop(member.member_id, None)
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
        """Remove the members and return an error code for each. The remaining members rebalance once."""
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

    def _check_room(self, group: Group, member_id: str) -> None:
        most = self._state.limits.max_size
        if group.state is GroupState.EMPTY:
            return
        member = group.members.get(member_id)
        if group.state is GroupState.PREPARING:
            joined = sum(1 for other in group.members.values() if other.joining is not None)
            has_room = joined < most or (member is not None and member.joining is not None)
        else:
            has_room = member is not None or len(group.members) < most
        if not has_room:
            if member is not None:
                group.remove(member)
                self._rebalance.end_session(group.group_id, member_id)
            raise ApiError(ErrorCode.group_max_size_reached)

    def _join_new(self, group: Group, request: JoinRequest, reply: JoinReply, now: Moment) -> None:
        self._check_room(group, NO_MEMBER)
        if not group.supports(request):
            raise ApiError(ErrorCode.inconsistent_group_protocol)
        member_id = f"{request.instance_id or request.client_id}-{request.fresh_id}"
        if request.instance_id is not None:
            former_id = group.static_ids.get(request.instance_id)
            if former_id is None:
                self._add(group, member_id, request, reply, now)
            else:
                self._replace_static(group, group.members[former_id], member_id, request, reply, now)
        elif request.requires_known_member_id:
            if len(group.pending_ids) >= self._state.limits.max_size:
                raise ApiError(ErrorCode.group_max_size_reached)
            group.pending_ids[member_id] = None
            self._rebalance.start_timeout(group.group_id, member_id, request.session_timeout_ms, now)
            reply(JoinResponse(ErrorCode.member_id_required, member_id))
        else:
            self._add(group, member_id, request, reply, now)

    def _join_known(self, group: Group, request: JoinRequest, reply: JoinReply, now: Moment) -> None:
        self._check_room(group, request.member_id)
        if not group.supports(request):
            raise ApiError(ErrorCode.inconsistent_group_protocol)
        if request.member_id in group.pending_ids:
            if request.instance_id is not None:
                raise ApiError(ErrorCode.unknown_member_id, "The id was assigned to a dynamic member.")
            self._add(group, request.member_id, request, reply, now)
            return
        member = group.check_member(request.member_id, request.instance_id)
        is_unchanged = member.protocols == request.protocols
        if group.state is GroupState.COMPLETING and is_unchanged:
            # It has missed the response to its last join.
            reply(group.join_response(member))
        elif group.state is GroupState.STABLE and is_unchanged and member.member_id != group.leader_id:
            reply(group.join_response(member))
        else:
            # A leader that joins a stable group triggers a new assignment.
            _update(member, request, reply)
            self._rebalance.advance(group, now)

    def _add(self, group: Group, member_id: str, request: JoinRequest, reply: JoinReply, now: Moment) -> None:
        if not group.members:
            group.protocol_type = request.protocol_type
        if group.state is GroupState.PREPARING and group.is_initial_rebalance:
            group.has_new_members = True
        member = _new_member(member_id, request)
        member.is_new = True
        member.joining = reply
        group.add(member)
        self._rebalance.start_session(group, member, now)
        self._rebalance.advance(group, now)

    def _replace_static(
        self, group: Group, former: Member, member_id: str, request: JoinRequest, reply: JoinReply, now: Moment
    ) -> None:
        former_leader_id = group.leader_id or NO_MEMBER
        self._rebalance.end_session(group.group_id, former.member_id)
        member = _new_member(member_id, request)
        member.assignment = former.assignment
        group.replace_static(former, member)
        self._rebalance.start_session(group, member, now)
        member.joining = reply
        if group.state is not GroupState.STABLE or group.select_protocol() != group.protocol_name:
            self._rebalance.advance(group, now)
            return
        self._state.write(
            [self._rebalance.record(group, group.assignments, now)],
            committed=lambda _: member.answer_join(_replaced(group, member, former_leader_id, request)),
            failed=lambda error, _: member.answer_join(JoinResponse(error)),
        )

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
            member.answer_sync(SyncResponse(error))
        self._rebalance.begin(group, now)

    def _leave(self, group: Group, leaving: LeavingMember, now: Moment) -> bool:
        """Remove a member; False if the id was pending, so that no member is lost."""
        if leaving.member_id in group.pending_ids:
            if leaving.instance_id is not None:
                raise ApiError(ErrorCode.unknown_member_id)
            self._rebalance.drop_pending(group, leaving.member_id, now)
            return False
        member_id = leaving.member_id
        if member_id == NO_MEMBER and leaving.instance_id is not None:
            # An administrator identifies a static member by its instance id alone.
            member_id = group.static_ids.get(leaving.instance_id, NO_MEMBER)
        member = group.check_member(member_id, leaving.instance_id)
        self._rebalance.end_session(group.group_id, member_id)
        group.remove(member)
        return True


def _assignment(group: Group, member: Member) -> SyncResponse:
    return SyncResponse(ErrorCode.none, group.protocol_type, group.protocol_name, member.assignment)


def _replaced(group: Group, member: Member, former_leader_id: str, request: JoinRequest) -> JoinResponse:
    """The response to a static member that rejoined while nothing else changed."""
    answer = group.join_response(member)
    if request.supports_skipping_assignment:
        return answer._replace(skip_assignment=group.leader_id == member.member_id)
    # An older client would assign again if the response made it the leader.
    return answer._replace(leader_id=former_leader_id, members=())


def _new_member(member_id: str, request: JoinRequest) -> Member:
    return Member(
        member_id,
        request.instance_id,
        request.client_id,
        request.client_host,
        _rebalance_timeout_ms(request),
        request.session_timeout_ms,
        request.protocols,
    )


def _update(member: Member, request: JoinRequest, reply: JoinReply) -> None:
    member.protocols = request.protocols
    member.session_timeout_ms = request.session_timeout_ms
    member.rebalance_timeout_ms = _rebalance_timeout_ms(request)
    member.wait_for_join(reply)


def _rebalance_timeout_ms(request: JoinRequest) -> int:
    return request.session_timeout_ms if request.rebalance_timeout_ms < 0 else request.rebalance_timeout_ms
