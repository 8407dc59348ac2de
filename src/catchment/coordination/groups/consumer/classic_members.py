"""Members of a consumer group that use the classic protocol, during a rolling upgrade or downgrade.

Such members have no leader. The response to JoinGroup comes at once, and its generation is the member epoch. SyncGroup returns
what the coordinator has assigned. A heartbeat returns REBALANCE_IN_PROGRESS when there are partitions to revoke or to get.
"""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from catchment.coordination.groups.classic.commands import (
    NO_MEMBER,
    JoinReply,
    JoinRequest,
    JoinResponse,
    SyncReply,
    SyncRequest,
    SyncResponse,
)
from catchment.coordination.groups.classic.consumer_protocol import EmbeddedSubscription, read_subscription
from catchment.coordination.groups.classic.group import CONSUMER
from catchment.coordination.groups.classic.membership import Membership
from catchment.coordination.groups.consumer.assignment import AssignmentBuilder, is_waiting
from catchment.coordination.groups.consumer.commands import ConsumerGroupLimits, MigrationPolicy
from catchment.coordination.groups.consumer.conversion import Conversion, by_topic_id, embedded_assignment
from catchment.coordination.groups.consumer.group import STATIC_LEAVING, ConsumerGroup, CurrentAssignment, MemberState
from catchment.coordination.groups.consumer.heartbeat import replace_static
from catchment.coordination.groups.consumer.records import ConsumerGroups, Draft
from catchment.coordination.groups.consumer.sessions import MemberSessions
from catchment.coordination.groups.modern import ClassicProtocol, MemberMetadata
from catchment.coordination.groups.state import ShardState
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError, MalformedRequest


class ClassicMembers:
    __slots__ = ("_assignments", "_conversion", "_groups", "_limits", "_membership", "_sessions", "_state")

    def __init__(
        self,
        state: ShardState,
        groups: ConsumerGroups,
        limits: ConsumerGroupLimits,
        assignments: AssignmentBuilder,
        sessions: MemberSessions,
        conversion: Conversion,
        membership: Membership,
    ) -> None:
        self._state = state
        self._groups = groups
        self._limits = limits
        self._assignments = assignments
        self._sessions = sessions
        self._conversion = conversion
        self._membership = membership

    def join(self, request: JoinRequest, reply: JoinReply, now: Moment) -> None:
        """JoinGroup to a consumer group that has members."""
        try:
            self._membership.check_join(request)
            group = self._groups.find(request.group_id)
            subscription = self._check_join(group, request)
            is_unknown = request.member_id == NO_MEMBER
            if is_unknown and request.instance_id is None and request.requires_known_member_id:
                reply(JoinResponse(ErrorCode.member_id_required, f"{request.client_id}-{request.fresh_id}"))
                return
            if is_unknown:
                request = request._replace(member_id=f"{request.instance_id or request.client_id}-{request.fresh_id}")
            if subscription.owned and request.member_id not in group.members:
                # It was removed and has not noticed yet: another member may already read the partitions that it reports to own.
                raise ApiError(ErrorCode.unknown_member_id)
            draft = Draft(group)
            if request.instance_id is not None:
                self._replace_static(draft, request, is_unknown=is_unknown)
            self._join(draft, request, subscription, reply, now)
        except ApiError as error:
            is_full = error.code is ErrorCode.group_max_size_reached
            reply(JoinResponse(error.code, NO_MEMBER if is_full else request.member_id))

    def sync(self, request: SyncRequest, reply: SyncReply, now: Moment) -> None:
        """SyncGroup: return the assignment of the member."""
        try:
            group = self._groups.find(request.group_id)
            member, current, classic = self._check(group, request.member_id, request.instance_id, request.generation)
            for asked, actual in (
                (request.protocol_type, CONSUMER),
                (request.protocol_name, classic.protocols[0][0]),
            ):
                if asked is not None and asked != actual:
                    raise ApiError(ErrorCode.inconsistent_group_protocol)
            if group.epoch > current.epoch and current.state is not MemberState.UNREVOKED_PARTITIONS:
                self._start_rejoin_timeout(request.group_id, request.member_id, member, now)
                raise ApiError(ErrorCode.rebalance_in_progress)
        except ApiError as error:
            reply(SyncResponse(error.code))
            return
        self._state.timers.cancel(("sync", request.group_id, request.member_id))
        self._sessions.start_session(request.group_id, request.member_id, member, now)
        assignment = embedded_assignment(member, current.assigned, self._state.image)
        reply(SyncResponse(ErrorCode.none, CONSUMER, classic.protocols[0][0], assignment))

    def heartbeat(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None, now: Moment
    ) -> ErrorCode:
        try:
            group = self._groups.find(group_id)
            member, current, _ = self._check(group, member_id, instance_id, generation)
        except ApiError as error:
            return error.code
        self._sessions.start_session(group_id, member_id, member, now)
        has_changes = (
            current.epoch < group.epoch
            or current.state is MemberState.UNREVOKED_PARTITIONS
            or (current.state is MemberState.UNRELEASED_PARTITIONS and not is_waiting(group, member_id))
        )
        if not has_changes:
            return ErrorCode.none
        self._start_rejoin_timeout(group_id, member_id, member, now)
        return ErrorCode.rebalance_in_progress

    def _check_join(self, group: ConsumerGroup, request: JoinRequest) -> EmbeddedSubscription:
        if self._limits.migration_policy is MigrationPolicy.DISABLED:
            raise ApiError(
                ErrorCode.inconsistent_group_protocol, "Migration is disabled by group.consumer.migration.policy."
            )
        if len(group.members) >= self._limits.max_size and request.member_id not in group.members:
            raise ApiError(ErrorCode.group_max_size_reached)
        names = {name for name, _ in request.protocols}
        for member in group.members.values():
            if member.classic is not None:
                names &= {name for name, _ in member.classic.protocols}
        if request.protocol_type != CONSUMER or not names:
            raise ApiError(ErrorCode.inconsistent_group_protocol)
        try:
            return read_subscription(request.protocols[0][1])
        except MalformedRequest as error:
            raise ApiError(ErrorCode.inconsistent_group_protocol, str(error)) from error

    def _replace_static(self, draft: Draft, request: JoinRequest, *, is_unknown: bool) -> None:
        group = draft.group
        if not is_unknown:
            group.check_member(request.member_id, request.instance_id)
            return
        former_id = group.static_ids.get(request.instance_id or "")
        if former_id is not None:
            self._sessions.cancel_timers(group.group_id, former_id)
            replace_static(draft, former_id, request.member_id)

    def _join(
        self, draft: Draft, request: JoinRequest, subscription: EmbeddedSubscription, reply: JoinReply, now: Moment
    ) -> None:
        group_id, member_id = request.group_id, request.member_id
        member = _subscription(request, subscription)
        owned = by_topic_id(subscription.owned, self._state.image)
        after = self._assignments.advance(draft, member_id, member, owned, now)
        live = self._groups.find(group_id)
        self._assignments.mark_checked(live)
        if self._conversion.can_downgrade(draft.group, list(draft.group.members)):
            # It replaces the last member that used the consumer protocol.
            self._join_downgraded(draft, live, request, reply, now)
            return
        self._sessions.start_session(group_id, member_id, member, now)
        self._state.timers.cancel(("rejoin", group_id, member_id))
        self._sessions.start_timeout("sync", group_id, member_id, member.rebalance_timeout_ms, now)
        answer = JoinResponse(ErrorCode.none, member_id, after.epoch, CONSUMER, request.protocols[0][0])
        if not draft.records:
            reply(answer)
            return
        self._state.write(
            draft.records, committed=lambda _: reply(answer), failed=lambda error, _: reply(JoinResponse(error))
        )

    def _join_downgraded(
        self, draft: Draft, live: ConsumerGroup, request: JoinRequest, reply: JoinReply, now: Moment
    ) -> None:
        self._conversion.downgrade(
            draft.group,
            list(draft.group.members),
            now,
            committed=lambda: self._membership.join(request, reply, now),
            failed=lambda error: reply(JoinResponse(error)),
            deleted=live,
        )

    def _check(
        self, group: ConsumerGroup, member_id: str, instance_id: str | None, generation: int
    ) -> tuple[MemberMetadata, CurrentAssignment, ClassicProtocol]:
        member = group.check_member(member_id, instance_id)
        if member.classic is None:
            raise ApiError(ErrorCode.unknown_member_id, "The member uses the consumer protocol.")
        current = group.current(member_id)
        if generation != current.epoch or current.epoch == STATIC_LEAVING:
            raise ApiError(ErrorCode.illegal_generation)
        return member, current, member.classic

    def _start_rejoin_timeout(self, group_id: str, member_id: str, member: MemberMetadata, now: Moment) -> None:
        """Remove the member unless it joins again in time. A running time-out is not extended."""
        if ("rejoin", group_id, member_id) not in self._state.timers:
            self._sessions.start_timeout("rejoin", group_id, member_id, member.rebalance_timeout_ms, now)


def _subscription(request: JoinRequest, subscription: EmbeddedSubscription) -> MemberMetadata:
    has_timeout = request.rebalance_timeout_ms >= 0
    return MemberMetadata(
        request.instance_id,
        subscription.rack_id,
        request.client_id,
        request.client_host,
        subscription.topics,
        None,
        request.rebalance_timeout_ms if has_timeout else request.session_timeout_ms,
        None,
        ClassicProtocol(request.session_timeout_ms, request.protocols),
    )
