"""A shard with a log in a list and a manual clock: what the broker's runner does, step by step."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import ClassVar, Generic, TypeVar

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import CoordinatorShard, EncodedRecord, Write
from catchment.coordination.timers import Moment

START_MS = 1_700_000_000_000

ShardT = TypeVar("ShardT", bound=CoordinatorShard)
Result = TypeVar("Result")


class Logged(abc.ABC, Generic[ShardT]):
    """Writes are committed at once, unless `holds_commits`: then they wait for `commit_all`."""

    replayed_is_safe: ClassVar[bool] = True
    """Whether the records that survive a crash survive the next one too."""

    def __init__(self) -> None:
        self.log: list[EncodedRecord] = []
        self.holds_commits = False
        self.pending: list[Write] = []
        self.safe_count = 0
        """The number of committed records."""
        self.now = Moment(START_MS, 0)
        self.shard = self.new_shard()

    @abc.abstractmethod
    def new_shard(self) -> ShardT:
        """A new shard that has replayed nothing."""

    def call(self, command: Callable[[ShardT, Moment], Result]) -> Result:
        result = command(self.shard, self.now)
        self._drain()
        return result

    def commit_all(self) -> None:
        self.safe_count = len(self.log)
        pending, self.pending = self.pending, []
        for write in pending:
            write.committed(self.now)
        self._drain()

    def fail_all(self, error: ErrorCode) -> None:
        pending, self.pending = self.pending, []
        for write in pending:
            write.failed(error, self.now)
        self._drain()

    def crash(self, kept: int | None = None) -> None:
        """Lose the shard and all of the log but its first `kept` records, and replay those into a new shard."""
        self.shard.close(ErrorCode.not_coordinator)
        self.pending = []
        del self.log[len(self.log) if kept is None else kept :]
        if self.replayed_is_safe:
            self.safe_count = len(self.log)
        self.shard = self.new_shard()
        for key, value in self.log:
            self.shard.replay(key, value)
        self.call(lambda shard, now: shard.loaded(now))

    def advance(self, milliseconds: int) -> None:
        """Advance the clock, and run the timers that become due."""
        end_ms = self.now.monotonic_ms + milliseconds
        while (deadline_ms := self.shard.next_deadline_ms) is not None and deadline_ms <= end_ms:
            self.move_to(max(deadline_ms, self.now.monotonic_ms))
            self.call(lambda shard, now: shard.run_timers(now))
        self.move_to(end_ms)

    def move_to(self, monotonic_ms: int) -> None:
        """Advance the clock without running timers."""
        self.now = Moment(self.now.wall_ms + monotonic_ms - self.now.monotonic_ms, monotonic_ms)

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
