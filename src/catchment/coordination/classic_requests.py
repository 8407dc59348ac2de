"""JoinGroup, SyncGroup, Heartbeat and LeaveGroup, whatever kind of group they are sent to.

A consumer group with members takes members of the classic protocol in (KIP-848). An empty one makes room for a classic group
of the same name; its offsets stay.
"""

from __future__ import annotations

from collections.abc import Sequence

from kio.schema.errors import ErrorCode

from catchment.coordination.commands import (
    NO_MEMBER,
    JoinAnswer,
    JoinReply,
    JoinRequest,
    LeavingMember,
    SyncReply,
    SyncRequest,
)
from catchment.coordination.consumer_groups.protocol import ConsumerProtocol
from catchment.coordination.join import Join
from catchment.coordination.membership import Membership
from catchment.coordination.shard_state import GroupKind, ShardState
from catchment.coordination.timers import Moment


class ClassicRequests:
    __slots__ = ("_consumer", "_joining", "_membership", "_state")

    def __init__(self, state: ShardState, joining: Join, membership: Membership, consumer: ConsumerProtocol) -> None:
        self._state = state
        self._joining = joining
        self._membership = membership
        self._consumer = consumer

    def join(self, request: JoinRequest, reply: JoinReply, now: Moment) -> None:
        kind = self._state.kind_of(request.group_id)
        if kind is GroupKind.CONSUMER:
            group = self._consumer.groups.find(request.group_id)
            if not group.is_empty:
                self._consumer.classic_members.join(request, reply, now)
                return
            if request.member_id == NO_MEMBER:
                self._state.write(group.tombstones())
        elif kind is GroupKind.SHARE:
            reply(JoinAnswer(ErrorCode.inconsistent_group_protocol, request.member_id))
            return
        self._joining.join(request, reply, now)

    def sync(self, request: SyncRequest, reply: SyncReply, now: Moment) -> None:
        if self._is_consumer(request.group_id):
            self._consumer.classic_members.sync(request, reply, now)
        else:
            self._membership.sync(request, reply, now)

    def heartbeat(
        self, group_id: str, generation: int, member_id: str, instance_id: str | None, now: Moment
    ) -> ErrorCode:
        if self._is_consumer(group_id):
            return self._consumer.classic_members.heartbeat(group_id, generation, member_id, instance_id, now)
        return self._membership.heartbeat(group_id, generation, member_id, instance_id, now)

    def leave(self, group_id: str, leaving: Sequence[LeavingMember], now: Moment) -> list[ErrorCode]:
        if self._is_consumer(group_id):
            return self._consumer.departures.leave_classic(group_id, leaving, now)
        return self._membership.leave(group_id, leaving, now)

    def _is_consumer(self, group_id: str) -> bool:
        return self._state.kind_of(group_id) is GroupKind.CONSUMER
