"""A shard of the share coordinator with its log, which can be pruned."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from kio.schema.errors import ErrorCode
from tests.coordination.logged_shard import Logged

from catchment.coordination.share_state.batches import NO_START, StateBatch
from catchment.coordination.share_state.records import NO_COUNT, ShareKey, ShareState
from catchment.coordination.share_state.shard import ShareStateShard
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError

TOPIC, OTHER_TOPIC, NO_TOPIC = UUID(int=1), UUID(int=2), UUID(int=3)
KEY = ShareKey("g", TOPIC, 0)
PARTITION_COUNT = 3


class LoggedShard(Logged[ShareStateShard]):
    def __init__(self, updates_per_snapshot: int = 3) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self.topics = {TOPIC, OTHER_TOPIC}
        super().__init__()

    def new_shard(self) -> ShareStateShard:
        return ShareStateShard(
            self.updates_per_snapshot, lambda topic_id, number: topic_id in self.topics and number < PARTITION_COUNT
        )

    def initialize(self, key: ShareKey = KEY, state_epoch: int = 0, start_offset: int = 0) -> list[ErrorCode]:
        """The error code, or an empty list while the request waits."""
        return self._ask(lambda shard, now, reply: shard.initialize(key, state_epoch, start_offset, reply, now))

    def write(
        self,
        *batches: StateBatch,
        key: ShareKey = KEY,
        state_epoch: int = -1,
        leader_epoch: int = -1,
        start_offset: int = NO_START,
        delivery_complete_count: int = NO_COUNT,
    ) -> list[ErrorCode]:
        return self._ask(
            lambda shard, now, reply: shard.write(
                key, state_epoch, leader_epoch, start_offset, batches, delivery_complete_count, reply, now
            )
        )

    def read(self, key: ShareKey = KEY, leader_epoch: int = -1) -> ShareState:
        return self.call(lambda shard, now: shard.read(key, leader_epoch, now))

    def delete(self, key: ShareKey = KEY) -> list[ErrorCode]:
        return self._ask(lambda shard, _, reply: shard.delete(key, reply))

    def state(self, key: ShareKey = KEY) -> ShareState | None:
        return self.shard.states.get(key)

    def states(self) -> dict[ShareKey, ShareState]:
        states = self.shard.states
        return {key: state for key in states if (state := states.get(key)) is not None}

    def pass_time(self, milliseconds: int) -> None:
        self.move_to(self.now.monotonic_ms + milliseconds)

    def prune(self) -> int:
        """Prune the log, and return the number of deleted records."""
        count = min(len(self.log) - self.shard.states.needed_count, self.safe_count)
        del self.log[:count]
        self.safe_count -= count
        return count

    def _ask(self, command: Callable[[ShareStateShard, Moment, Callable[[ErrorCode], None]], None]) -> list[ErrorCode]:
        outcomes: list[ErrorCode] = []
        try:
            self.call(lambda shard, now: command(shard, now, outcomes.append))
        except ApiError as error:
            outcomes.append(error.code)
        return outcomes
