"""A transaction shard with a log in a list and a clock that stands still: what the broker's runner does, step by step."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TypeVar

from kio.schema.errors import ErrorCode

from catchment.coordination.replayed import EncodedRecord, Producer, Write
from catchment.coordination.timers import Moment
from catchment.coordination.transactions.commands import (
    EndRequest,
    FreshProducerIdNeeded,
    InitRequest,
    MarkersToWrite,
    ProducerAnswer,
    ProducerReply,
    TransactionLimits,
)
from catchment.coordination.transactions.records import TopicPartition, Transaction
from catchment.coordination.transactions.shard import TransactionShard
from catchment.protocol.errors import ApiError

START_MS = 1_700_000_000_000
TIMEOUT_MS = 60_000
V1, V2 = 0, 2
"""The transaction versions that clients speak before and since KIP-890."""

Result = TypeVar("Result")
_ProducerCommand = Callable[[TransactionShard, int | None, ProducerReply, Moment], None]


class LoggedTransactions:
    """Writes are safe at once, unless `holds_commits`: then they wait for `commit_all`."""

    def __init__(self, limits: TransactionLimits | None = None) -> None:
        self.limits = limits or TransactionLimits()
        self.log: list[EncodedRecord] = []
        self.holds_commits = False
        self.pending: list[Write] = []
        self.safe_count = 0
        """How many records of the log cannot be lost."""
        self.now = Moment(START_MS, 0)
        self.markers: list[MarkersToWrite] = []
        """What the partitions are to be told, and nobody has told them yet."""
        self.shard = self._new_shard()
        self._fresh_ids = itertools.count(1000)

    def call(self, command: Callable[[TransactionShard, Moment], Result]) -> Result:
        result = command(self.shard, self.now)
        self._drain()
        return result

    def init(
        self, transactional_id: str = "x", expected: Producer | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> list[ProducerAnswer]:
        """The answers so far: an empty list is a request that waits for its record to be safe."""
        request = InitRequest(transactional_id, timeout_ms, expected)
        return self._ask(lambda shard, fresh, reply, now: shard.producers.init(request, fresh, reply, now))

    def end(
        self, producer: Producer, transactional_id: str = "x", *, is_commit: bool = True, version: int = V2
    ) -> list[ProducerAnswer]:
        request = EndRequest(transactional_id, producer, is_commit, version)
        return self._ask(lambda shard, fresh, reply, now: shard.ending.end(request, fresh, reply, now))

    def add(
        self, producer: Producer, *partitions: TopicPartition, transactional_id: str = "x", version: int = V2
    ) -> list[ErrorCode]:
        answers: list[ErrorCode] = []
        try:
            self.call(
                lambda shard, now: shard.partitions.add(
                    transactional_id, producer, partitions, version, answers.append, now
                )
            )
        except ApiError as error:
            return [error.code]
        return answers

    def deliver(self, markers: MarkersToWrite) -> None:
        """Every partition has these markers now."""
        self.call(lambda shard, now: shard.ending.markers_written(markers.transactional_id, markers.producer, now))

    def deliver_all(self) -> list[MarkersToWrite]:
        delivered, self.markers = self.markers, []
        for markers in delivered:
            self.deliver(markers)
        return delivered

    def abort_late(self) -> None:
        for late in self.call(lambda shard, now: shard.ending.timed_out(now)):
            self._abort(late)

    def transaction(self, transactional_id: str = "x") -> Transaction:
        return self.shard.state.logged[transactional_id]

    def producer(self, transactional_id: str = "x", epoch: int | None = None) -> Producer:
        """A new producer; with an epoch, one that has come that far already."""
        (answer,) = self.init(transactional_id)
        assert answer.error is ErrorCode.none
        return answer.producer if epoch is None else self.age(transactional_id, epoch)

    def age(self, transactional_id: str, epoch: int) -> Producer:
        """The producer, as it is after many epochs more."""
        known = self.transaction(transactional_id)
        aged = known._replace(producer_epoch=epoch, previous_producer_id=known.producer_id)
        self.call(lambda shard, _: shard.state.log(transactional_id, aged, lambda _: None, lambda _, __: None))
        return Producer(aged.producer_id, epoch)

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
        """Lose the shard and all of the log but its first `kept` records; replay those into a new one."""
        for write in self.pending:
            write.failed(ErrorCode.not_coordinator, self.now)
        self.shard.close(ErrorCode.not_coordinator)
        self.pending, self.markers = [], []
        del self.log[len(self.log) if kept is None else kept :]
        self.shard = self._new_shard()
        for key, value in self.log:
            self.shard.replay(key, value)
        self.call(lambda shard, now: shard.loaded(now))

    def advance(self, milliseconds: int) -> None:
        """Let time pass, deadline by deadline."""
        end_ms = self.now.steady_ms + milliseconds
        while (deadline_ms := self.shard.next_deadline_ms) is not None and deadline_ms <= end_ms:
            self._move(max(deadline_ms, self.now.steady_ms))
            self.call(lambda shard, now: shard.on_time(now))
        self._move(end_ms)

    def _ask(self, command: _ProducerCommand) -> list[ProducerAnswer]:
        answers: list[ProducerAnswer] = []
        try:
            try:
                self.call(lambda shard, now: command(shard, None, answers.append, now))
            except FreshProducerIdNeeded:
                fresh = next(self._fresh_ids)
                self.call(lambda shard, now: command(shard, fresh, answers.append, now))
        except ApiError as error:
            return [ProducerAnswer(error.code)]
        return answers

    def _abort(self, transactional_id: str) -> None:
        try:
            self.call(lambda shard, now: shard.ending.abort_if_timed_out(transactional_id, None, now))
        except FreshProducerIdNeeded:
            fresh = next(self._fresh_ids)
            self.call(lambda shard, now: shard.ending.abort_if_timed_out(transactional_id, fresh, now))

    def _new_shard(self) -> TransactionShard:
        return TransactionShard(self.limits, lambda markers: self.markers.append(markers))

    def _move(self, steady_ms: int) -> None:
        self.now = Moment(self.now.wall_ms + steady_ms - self.now.steady_ms, steady_ms)

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
