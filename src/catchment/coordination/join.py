"""JoinGroup: how somebody becomes a member, stays one, or takes the place of its former self.

A new member first gets an id and has to come again with it (KIP-394), so that one that lost the answer leaves nothing
behind. A static member (KIP-345) is known by its instance id: it comes back under a new member id without a rebalance,
as long as the group's protocol stays the same.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from catchment.coordination.commands import MAX_NAME_BYTES, NO_MEMBER, JoinAnswer, JoinReply, JoinRequest, is_too_long
from catchment.coordination.group import Group, GroupState
from catchment.coordination.members import Member
from catchment.coordination.rebalance import Rebalance
from catchment.coordination.shard_state import ShardState
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError


class Join:
    __slots__ = ("_rebalance", "_state")

    def __init__(self, state: ShardState, rebalance: Rebalance) -> None:
        self._state = state
        self._rebalance = rebalance

    def join(self, request: JoinRequest, reply: JoinReply, now: Moment) -> None:
        try:
            self.check(request)
            if request.member_id == NO_MEMBER:
                self._join_new(self._state.get_or_make(request.group_id), request, reply, now)
            else:
                self._join_known(self._state.existing(request.group_id), request, reply, now)
        except ApiError as error:
            self._state.forget_if_idle(request.group_id)
            is_full = error.code is ErrorCode.group_max_size_reached
            reply(JoinAnswer(error.code, NO_MEMBER if is_full else request.member_id))

    def check(self, request: JoinRequest) -> None:
        """ApiError for what nobody may ask of any group."""
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
            self._rebalance.expect(group.group_id, member_id, request.session_timeout_ms, now)
            reply(JoinAnswer(ErrorCode.member_id_required, member_id))
        else:
            self._add(group, member_id, request, reply, now)

    def _join_known(self, group: Group, request: JoinRequest, reply: JoinReply, now: Moment) -> None:
        self._check_room(group, request.member_id)
        if not group.supports(request):
            raise ApiError(ErrorCode.inconsistent_group_protocol)
        if request.member_id in group.pending_ids:
            if request.instance_id is not None:
                raise ApiError(ErrorCode.unknown_member_id, "An id that was given to a dynamic member.")
            self._add(group, request.member_id, request, reply, now)
            return
        member = group.check_member(request.member_id, request.instance_id)
        is_unchanged = member.protocols == request.protocols
        if group.state is GroupState.COMPLETING and is_unchanged:
            # It has missed our answer to its last join.
            reply(group.join_answer(member))
        elif group.state is GroupState.STABLE and is_unchanged and member.member_id != group.leader_id:
            reply(group.join_answer(member))
        else:
            # A leader that joins a stable group wants to assign anew.
            _update(member, request, reply)
            self._rebalance.advance(group, now)

    def _add(self, group: Group, member_id: str, request: JoinRequest, reply: JoinReply, now: Moment) -> None:
        if not group.members:
            group.protocol_type = request.protocol_type
        if group.state is GroupState.PREPARING and group.is_first_round:
            group.has_newcomers = True
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
            failed=lambda error, _: member.answer_join(JoinAnswer(error)),
        )


def _replaced(group: Group, member: Member, former_leader_id: str, request: JoinRequest) -> JoinAnswer:
    """The answer to a static member that came back while nothing else changed."""
    answer = group.join_answer(member)
    if request.supports_skipping_assignment:
        return answer._replace(skip_assignment=group.leader_id == member.member_id)
    # An older client would assign anew if it took itself for the leader.
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
