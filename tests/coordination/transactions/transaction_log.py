"""A shard of the transaction coordinator with its log, and the requests of clients and partitions."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from kio.schema.errors import ErrorCode
from tests.coordination.logged_shard import Logged

from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.timers import Moment
from catchment.coordination.transactions.commands import (
    EndRequest,
    FreshProducerIdNeeded,
    InitRequest,
    MarkersToWrite,
    ProducerReply,
    ProducerResponse,
    TransactionLimits,
)
from catchment.coordination.transactions.records import TopicPartition, Transaction
from catchment.coordination.transactions.shard import TransactionShard
from catchment.protocol.errors import ApiError

TIMEOUT_MS = 60_000
V1, V2 = 0, 2
"""The transaction versions of clients before and since KIP-890."""

_ProducerCommand = Callable[[TransactionShard, int | None, ProducerReply, Moment], None]


class LoggedTransactions(Logged[TransactionShard]):
    replayed_is_safe = False

    def __init__(self, limits: TransactionLimits | None = None) -> None:
        self.limits = limits or TransactionLimits()
        self.markers: list[MarkersToWrite] = []
        """The markers that are sent and not written yet."""
        self._fresh_ids = itertools.count(1000)
        super().__init__()

    def new_shard(self) -> TransactionShard:
        return TransactionShard(self.limits, lambda markers: self.markers.append(markers))

    def init(
        self, transactional_id: str = "x", expected: Producer | None = None, *, timeout_ms: int = TIMEOUT_MS
    ) -> list[ProducerResponse]:
        """Send a request, and return the responses so far: an empty list is a request that waits for its record."""
        request = InitRequest(transactional_id, timeout_ms, expected)
        return self._ask(lambda shard, fresh, reply, now: shard.producers.init(request, fresh, reply, now))

    def end(
        self, producer: Producer, transactional_id: str = "x", *, is_commit: bool = True, version: int = V2
    ) -> list[ProducerResponse]:
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
        """Report that every partition has these markers."""
        self.call(lambda shard, now: shard.ending.markers_written(markers.transactional_id, markers.producer, now))

    def deliver_all(self) -> list[MarkersToWrite]:
        delivered, self.markers = self.markers, []
        for markers in delivered:
            self.deliver(markers)
        return delivered

    def abort_timed_out(self) -> None:
        for late in self.call(lambda shard, now: shard.ending.timed_out(now)):
            self._abort(late)

    def transaction(self, transactional_id: str = "x") -> Transaction:
        return self.shard.state.logged[transactional_id]

    def producer(self, transactional_id: str = "x", epoch: int | None = None) -> Producer:
        """A new producer, which continues with the given epoch if there is one."""
        (answer,) = self.init(transactional_id)
        assert answer.error is ErrorCode.none
        return answer.producer if epoch is None else self.age(transactional_id, epoch)

    def age(self, transactional_id: str, epoch: int) -> Producer:
        """The producer after many more epochs."""
        known = self.transaction(transactional_id)
        aged = known._replace(producer_epoch=epoch, previous_producer_id=known.producer_id)
        self.call(lambda shard, _: shard.state.log(transactional_id, aged, lambda _: None, lambda _, __: None))
        return Producer(aged.producer_id, epoch)

    def crash(self, kept: int | None = None) -> None:
        for write in self.pending:
            write.failed(ErrorCode.not_coordinator, self.now)
        self.markers = []
        super().crash(kept)

    def _ask(self, command: _ProducerCommand) -> list[ProducerResponse]:
        answers: list[ProducerResponse] = []
        try:
            try:
                self.call(lambda shard, now: command(shard, None, answers.append, now))
            except FreshProducerIdNeeded:
                fresh = next(self._fresh_ids)
                self.call(lambda shard, now: command(shard, fresh, answers.append, now))
        except ApiError as error:
            return [ProducerResponse(error.code)]
        return answers

    def _abort(self, transactional_id: str) -> None:
        try:
            self.call(lambda shard, now: shard.ending.abort_if_timed_out(transactional_id, None, now))
        except FreshProducerIdNeeded:
            fresh = next(self._fresh_ids)
            self.call(lambda shard, now: shard.ending.abort_if_timed_out(transactional_id, fresh, now))
