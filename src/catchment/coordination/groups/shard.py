"""One shard of the group coordinator, as its runner uses it.

Commands do not change logged state: they leave records in `take_writes`. The runner appends the records, passes each to
`replay` at once, and reports the outcome of the write when the high watermark has passed it, or when it cannot be written.
Between commands the runner calls `run_timers` at `next_deadline_ms`. If a failed write leaves the log in doubt, the shard is
closed and a new one replays the log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kio.schema.errors import ErrorCode

from catchment.cluster.metadata import MetadataImage
from catchment.coordination.assignors import simple
from catchment.coordination.coordinator_shard import NO_PRODUCER, ShardBase
from catchment.coordination.groups.classic.commands import (
    NO_MEMBER,
    JoinReply,
    JoinRequest,
    JoinResponse,
    LeavingMember,
    SyncReply,
    SyncRequest,
)
from catchment.coordination.groups.classic.group import GroupState
from catchment.coordination.groups.classic.membership import Membership
from catchment.coordination.groups.classic.rebalance import Rebalance
from catchment.coordination.groups.consumer.assignment import AssignmentBuilder
from catchment.coordination.groups.consumer.classic_members import ClassicMembers
from catchment.coordination.groups.consumer.commands import DEFAULT_LIMITS, ConsumerGroupLimits
from catchment.coordination.groups.consumer.conversion import Conversion
from catchment.coordination.groups.consumer.group import CurrentAssignment
from catchment.coordination.groups.consumer.heartbeat import Heartbeats
from catchment.coordination.groups.consumer.records import ConsumerGroups
from catchment.coordination.groups.consumer.sessions import MemberSessions
from catchment.coordination.groups.modern import GroupDescription
from catchment.coordination.groups.offset_commands import OffsetCommands
from catchment.coordination.groups.queries import Consumed, GroupQueries
from catchment.coordination.groups.share.group import DEFAULT_SHARE_LIMITS, ShareAssignment, ShareGroupLimits
from catchment.coordination.groups.share.heartbeat import ShareMembership
from catchment.coordination.groups.share.records import ShareGroups
from catchment.coordination.groups.share.state_partitions import Initialization, ShareGroupOffsets
from catchment.coordination.groups.state import GroupKind, GroupLimits, ShardState
from catchment.coordination.timers import Moment


class GroupShard(ShardBase):
    __slots__ = ("_rebalance", "_state", "classic", "consumed", "consumer", "groups", "offsets", "share_groups")

    def __init__(
        self,
        limits: GroupLimits,
        image: Callable[[], MetadataImage] = MetadataImage,
        consumer_limits: ConsumerGroupLimits = DEFAULT_LIMITS,
        share_group_limits: ShareGroupLimits = DEFAULT_SHARE_LIMITS,
    ) -> None:
        self._state = ShardState(limits, image)
        super().__init__(self._state)
        self._rebalance = Rebalance(self._state)
        membership = Membership(self._state, self._rebalance)
        consumer_groups = ConsumerGroups(self._state)
        self.consumer = ConsumerGroupCommands(
            self._state, consumer_groups, self._rebalance, membership, consumer_limits
        )
        self.classic = ClassicRequests(self._state, membership, self.consumer)
        self.offsets = OffsetCommands(self._state, self._rebalance, consumer_groups)
        self.groups = GroupQueries(self._state)
        self.consumed = Consumed(self._state)
        self.share_groups = ShareGroupCommands(self._state, share_group_limits)

    @property
    def state(self) -> ShardState:
        return self._state

    def replay(self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER) -> None:
        self._state.replay(key, value, producer_id)

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        self._state.end_transaction(producer_id, is_commit)

    def loaded(self, now: Moment) -> None:
        """Create the groups once all of the log is replayed, with a new session for every member."""
        self._state.rebuild_groups()
        for group in self._state.groups.values():
            for member in group.members.values():
                self._rebalance.start_session(group, member, now)
            if group.state is GroupState.STABLE and len(group.members) > self._state.limits.max_size:
                self._rebalance.begin(group, now)
        self.consumer.loaded(now)
        self.share_groups.loaded(now)

    def close(self, error: ErrorCode) -> None:
        """Answer all waiting requests with the error: the shard is unloaded."""
        for group in self._state.groups.values():
            for member in list(group.members.values()):
                member.cancel_requests(error)
        self._state.groups.clear()


class ClassicRequests:
    """JoinGroup, SyncGroup, Heartbeat and LeaveGroup, for any kind of group.

    Members of the classic protocol can join a consumer group that has members (KIP-848). An empty consumer group is replaced
    by a classic group of the same name, which keeps its offsets.
    """

    __slots__ = ("_consumer", "_membership", "_state")

    def __init__(self, state: ShardState, membership: Membership, consumer: ConsumerGroupCommands) -> None:
        self._state = state
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
            reply(JoinResponse(ErrorCode.inconsistent_group_protocol, request.member_id))
            return
        self._membership.join(request, reply, now)

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
            return self._consumer.sessions.leave_classic(group_id, leaving, now)
        return self._membership.leave(group_id, leaving, now)

    def _is_consumer(self, group_id: str) -> bool:
        return self._state.kind_of(group_id) is GroupKind.CONSUMER


class ConsumerGroupCommands:
    """The consumer groups of a shard, and the commands on them."""

    __slots__ = ("_assignments", "classic_members", "groups", "heartbeats", "sessions")

    def __init__(
        self,
        state: ShardState,
        groups: ConsumerGroups,
        rebalance: Rebalance,
        membership: Membership,
        limits: ConsumerGroupLimits,
    ) -> None:
        self.groups = groups
        self._assignments = assignments = AssignmentBuilder(state, limits)
        conversion = Conversion(state, rebalance, limits)
        self.sessions = MemberSessions(state, groups, limits, assignments, conversion)
        self.heartbeats = Heartbeats(state, groups, limits, assignments, self.sessions, conversion)
        self.classic_members = ClassicMembers(state, groups, limits, assignments, self.sessions, conversion, membership)

    def loaded(self, now: Moment) -> None:
        self.sessions.start_all(now)

    def describe(self, group_id: str) -> GroupDescription[CurrentAssignment]:
        """Describe the group; ApiError if there is none of this kind."""
        group = self.groups.find(group_id)
        return group.describe(self._assignments.assignor_of(group))


class ShareGroupCommands:
    """The share groups of a shard, and the commands on them."""

    __slots__ = ("groups", "initialization", "membership", "offsets")

    def __init__(self, state: ShardState, terms: ShareGroupLimits) -> None:
        self.groups = ShareGroups(state)
        self.initialization = Initialization(state, self.groups, terms)
        self.membership = ShareMembership(state, self.groups, self.initialization, terms)
        self.offsets = ShareGroupOffsets(state, self.groups)

    def loaded(self, now: Moment) -> None:
        self.membership.start_sessions(now)
        self.initialization.stop_all_deleting()

    def describe(self, group_id: str) -> GroupDescription[ShareAssignment]:
        """Describe the group; ApiError if there is none of this kind."""
        return self.groups.find(group_id).describe(simple.NAME)
