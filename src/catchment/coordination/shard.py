"""One shard of the group coordinator, as whoever runs it sees it.

Commands change nothing that is logged: they leave records in `take_writes`. The runner appends those, hands each to
`replay` at once, and tells the write's outcome when the high watermark has passed it, or when it cannot be written.
Between commands the runner calls `on_time` when `next_deadline_ms` has come. A shard whose writes failed in a way that
leaves the log in doubt is closed and replaced by one that replays the log.
"""

from __future__ import annotations

from collections.abc import Callable

from kio.schema.errors import ErrorCode

from catchment.cluster.metadata import MetadataImage
from catchment.coordination.classic_requests import ClassicRequests
from catchment.coordination.commands import GroupLimits
from catchment.coordination.consumed import Consumed
from catchment.coordination.consumer_groups.commands import DEFAULT_LIMITS, ConsumerGroupLimits
from catchment.coordination.consumer_groups.protocol import ConsumerProtocol
from catchment.coordination.consumer_groups.store import ConsumerGroups
from catchment.coordination.group import GroupState
from catchment.coordination.group_queries import GroupQueries
from catchment.coordination.join import Join
from catchment.coordination.membership import Membership
from catchment.coordination.offset_commands import OffsetCommands
from catchment.coordination.rebalance import Rebalance
from catchment.coordination.replayed import NO_PRODUCER, Write
from catchment.coordination.shard_state import ShardState
from catchment.coordination.share_groups.commands import DEFAULT_TERMS, ShareTerms
from catchment.coordination.share_groups.share_groups import ShareGroupCommands
from catchment.coordination.timers import Moment


class GroupShard:
    __slots__ = ("_rebalance", "_state", "classic", "consumed", "consumer", "groups", "offsets", "share_groups")

    def __init__(
        self,
        limits: GroupLimits,
        image: Callable[[], MetadataImage] = MetadataImage,
        consumer_limits: ConsumerGroupLimits = DEFAULT_LIMITS,
        share_terms: ShareTerms = DEFAULT_TERMS,
    ) -> None:
        self._state = ShardState(limits, image)
        self._rebalance = Rebalance(self._state)
        joining = Join(self._state, self._rebalance)
        membership = Membership(self._state, self._rebalance)
        consumer_groups = ConsumerGroups(self._state)
        self.consumer = ConsumerProtocol(self._state, consumer_groups, self._rebalance, joining, consumer_limits)
        self.classic = ClassicRequests(self._state, joining, membership, self.consumer)
        self.offsets = OffsetCommands(self._state, self._rebalance, consumer_groups)
        self.groups = GroupQueries(self._state)
        self.consumed = Consumed(self._state)
        self.share_groups = ShareGroupCommands(self._state, share_terms)

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
        self._state.replay(key, value, producer_id)

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        self._state.end_transaction(producer_id, is_commit)

    def loaded(self, now: Moment) -> None:
        """All of the log is replayed: bring the groups to life, with a new session for every member."""
        self._state.rebuild_groups()
        for group in self._state.groups.values():
            for member in group.members.values():
                self._rebalance.start_session(group, member, now)
            if group.state is GroupState.STABLE and len(group.members) > self._state.limits.max_size:
                self._rebalance.begin(group, now)
        self.consumer.loaded(now)
        self.share_groups.loaded(now)

    def on_time(self, now: Moment) -> None:
        self._state.timers.run_due(now)

    def close(self, error: ErrorCode) -> None:
        """Answer everybody who waits: this shard will not."""
        for group in self._state.groups.values():
            for member in list(group.members.values()):
                member.dismiss(error)
        self._state.groups.clear()
