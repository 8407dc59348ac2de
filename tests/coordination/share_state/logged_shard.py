"""A share-state shard with a log in a list: what the broker's runner does, step by step, cutting off the log included."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.coordination.replayed import EncodedRecord, Write
from catchment.coordination.share_state.batches import NO_START, StateBatch
from catchment.coordination.share_state.records import NO_COUNT, ShareKey, ShareState
from catchment.coordination.share_state.shard import ShareStateShard
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError

TOPIC, OTHER_TOPIC, NO_TOPIC = UUID(int=1), UUID(int=2), UUID(int=3)
KEY = ShareKey("g", TOPIC, 0)
PARTITION_COUNT = 3

Result = TypeVar("Result")


class LoggedShard:
    """Writes are safe at once, unless `holds_commits`: then they wait for `commit_all`."""

    def __init__(self, updates_per_snapshot: int = 3) -> None:
        self.updates_per_snapshot = updates_per_snapshot
        self.topics = {TOPIC, OTHER_TOPIC}
        self.log: list[EncodedRecord] = []
        self.holds_commits = False
        self.pending: list[Write] = []
        self.safe_count = 0
        """How many records of the log cannot be lost."""
        self.now = Moment(1_700_000_000_000, 0)
        self.shard = self._new_shard()

    def call(self, command: Callable[[ShareStateShard, Moment], Result]) -> Result:
        result = command(self.shard, self.now)
        self._drain()
        return result

    def initialize(self, key: ShareKey = KEY, state_epoch: int = 0, start_offset: int = 0) -> list[ErrorCode]:
        """The outcome, or an empty list while it is not known."""
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
        self.now = Moment(self.now.wall_ms + milliseconds, self.now.steady_ms + milliseconds)

    def commit_all(self) -> None:
        self.safe_count = len(self.log)
        pending, self.pending = self.pending, []
        for write in pending:
            write.committed(self.now)
        self._drain()

    def crash(self, kept: int | None = None) -> None:
        """Lose the shard and all of the log but its first `kept` records; replay those into a new one."""
        self.pending = []
        del self.log[len(self.log) if kept is None else kept :]
        self.shard = self._new_shard()
        for key, value in self.log:
            self.shard.replay(key, value)
        self.call(lambda shard, now: shard.loaded(now))
        self.safe_count = len(self.log)

    def prune(self) -> int:
        """Cut off what is not needed; how many records that were."""
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

    def _new_shard(self) -> ShareStateShard:
        return ShareStateShard(
            self.updates_per_snapshot, lambda topic_id, number: topic_id in self.topics and number < PARTITION_COUNT
        )

    def _drain(self) -> None:
        while writes := self.shard.take_writes():
            for write in writes:
                self.log += write.records
                for key, value in write.records:
                    self.shard.replay(key, value)
                if self.holds_commits:
                    self.pending.append(write)
                else:
                    self.safe_count = len(self.log)
                    write.committed(self.now)
