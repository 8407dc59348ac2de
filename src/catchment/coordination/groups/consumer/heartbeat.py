"""ConsumerGroupHeartbeat: members join, report what they subscribe to and own, get their assignment, and leave."""

from __future__ import annotations

from kio.schema.errors import ErrorCode

from catchment.coordination.groups.consumer.assignment import AssignmentBuilder
from catchment.coordination.groups.consumer.commands import (
    ConsumerGroupLimits,
    HeartbeatReply,
    HeartbeatRequest,
    HeartbeatResponse,
)
from catchment.coordination.groups.consumer.conversion import Conversion
from catchment.coordination.groups.consumer.group import (
    STATIC_LEAVING,
    AssignedPartitions,
    ConsumerGroup,
    CurrentAssignment,
)
from catchment.coordination.groups.consumer.records import ConsumerGroups, Draft
from catchment.coordination.groups.consumer.sessions import MemberSessions
from catchment.coordination.groups.modern import JOINING, NO_TIMEOUT, MemberMetadata, PartitionsByTopic
from catchment.coordination.groups.state import GroupKind, ShardState
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError

_NEW = MemberMetadata()


class Heartbeats:
    __slots__ = ("_assignments", "_conversion", "_groups", "_limits", "_sessions", "_state")

    def __init__(
        self,
        state: ShardState,
        groups: ConsumerGroups,
        limits: ConsumerGroupLimits,
        assignments: AssignmentBuilder,
        sessions: MemberSessions,
        conversion: Conversion,
    ) -> None:
        self._state = state
        self._groups = groups
        self._limits = limits
        self._assignments = assignments
        self._sessions = sessions
        self._conversion = conversion

    def heartbeat(self, request: HeartbeatRequest, reply: HeartbeatReply, now: Moment) -> None:
        try:
            request.check(self._limits.assignors)
            if request.epoch < JOINING:
                self._sessions.leave(
                    request.group_id, request.member_id, request.instance_id, request.epoch, reply, now
                )
            else:
                self._heartbeat(request, reply, now)
        except ApiError as error:
            reply(HeartbeatResponse(error.code, error.message))

    def _heartbeat(self, request: HeartbeatRequest, reply: HeartbeatReply, now: Moment) -> None:
        draft = self._open(request, now)
        if len(draft.group.members) >= self._limits.max_size and request.member_id not in draft.group.members:
            raise ApiError(
                ErrorCode.group_max_size_reached,
                f"Group '{request.group_id}' has reached its limit of {self._limits.max_size} members.",
            )
        self._check_member(draft, request)
        member_id = request.member_id
        before = draft.group.current(member_id)
        member = _updated(draft.group.members.get(member_id, _NEW), request)
        after = self._assignments.advance(draft, member_id, member, request.owned, now)
        self._sessions.start_session(request.group_id, member_id, member, now)
        if after != before:
            self._sessions.start_revocation_timeout(request.group_id, member_id, member, after, now)
        includes_assignment = request.epoch == JOINING or request.is_full or after.assigned != before.assigned
        answer = HeartbeatResponse(
            ErrorCode.none,
            None,
            member_id,
            after.epoch,
            self._limits.timing_of(request.group_id).heartbeat_interval_ms,
            _numbers(after.assigned) if includes_assignment else None,
        )
        live = self._groups.by_id.get(request.group_id)
        if live is not None:
            self._assignments.mark_checked(live)
        if not draft.records:
            reply(answer)
            return
        self._state.write(
            draft.records,
            committed=lambda _: reply(answer),
            failed=lambda error, _: reply(HeartbeatResponse(error)),
        )

    def _open(self, request: HeartbeatRequest, now: Moment) -> Draft:
        """The group; for a member that joins, one that is created or converted if necessary."""
        group = self._groups.by_id.get(request.group_id)
        if group is not None:
            return Draft(group)
        kind = self._state.kind_of(request.group_id)
        if request.epoch == JOINING and kind is None:
            return Draft(ConsumerGroup(request.group_id))
        if request.epoch == JOINING and kind is GroupKind.CLASSIC:
            draft = self._conversion.upgrade(self._state.groups[request.group_id], now)
            for member_id, member in draft.group.members.items():
                self._sessions.start_session(request.group_id, member_id, member, now)
            return draft
        return Draft(self._groups.find(request.group_id))

    def _check_member(self, draft: Draft, request: HeartbeatRequest) -> None:
        """Check the member and its epoch. A static member that rejoins replaces its former member id."""
        group, member_id, instance_id = draft.group, request.member_id, request.instance_id
        if request.epoch != JOINING:
            group.check_member(member_id, instance_id)
            _check_epoch(group.current(member_id), request.epoch, request.owned)
            return
        holder_id = group.static_ids.get(instance_id) if instance_id is not None else None
        if holder_id is None or holder_id == member_id:
            return
        is_gone = group.current(holder_id).epoch == STATIC_LEAVING
        if group.members[holder_id].classic is None and not is_gone:
            raise ApiError(
                ErrorCode.unreleased_instance_id,
                f"Instance id '{instance_id}' is in use: member {holder_id} has not left the group.",
            )
        self._sessions.cancel_timers(group.group_id, holder_id)
        replace_static(draft, holder_id, member_id)


def replace_static(draft: Draft, former_id: str, member_id: str) -> None:
    """Replace a static member that rejoined under a new member id."""
    group = draft.group
    member, target, current = group.members[former_id], group.target(former_id), group.current(former_id)
    draft.remove_member(former_id)
    draft.put_member(member_id, member)
    draft.put_target(member_id, target)
    draft.put_current(member_id, current._replace(epoch=JOINING, previous_epoch=JOINING))


def _updated(former: MemberMetadata, request: HeartbeatRequest) -> MemberMetadata:
    is_timed = request.rebalance_timeout_ms != NO_TIMEOUT
    return MemberMetadata(
        former.instance_id if request.instance_id is None else request.instance_id,
        former.rack_id if request.rack_id is None else request.rack_id,
        request.client_id,
        request.client_host,
        former.topics if request.topics is None else tuple(sorted(set(request.topics))),
        former.regex if request.regex is None else request.regex or None,
        request.rebalance_timeout_ms if is_timed else former.rebalance_timeout_ms,
        former.assignor if request.assignor is None else request.assignor,
    )


def _check_epoch(current: CurrentAssignment, received: int, owned: PartitionsByTopic | None) -> None:
    if received == current.epoch:
        return
    if received < current.epoch and received == current.previous_epoch and _is_within(owned, current.assigned):
        # The response with the new epoch was lost.
        return
    raise ApiError(
        ErrorCode.fenced_member_epoch,
        f"The member is in epoch {current.epoch}, not in {received}. It must revoke its partitions and rejoin.",
    )


def _is_within(owned: PartitionsByTopic | None, assigned: AssignedPartitions) -> bool:
    return owned is not None and all(
        number in assigned.get(topic_id, {}) for topic_id, numbers in owned.items() for number in numbers
    )


def _numbers(assigned: AssignedPartitions) -> PartitionsByTopic:
    return {topic_id: frozenset(numbers) for topic_id, numbers in assigned.items()}
