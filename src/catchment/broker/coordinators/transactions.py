"""The transaction coordinator of this broker: a shard for each partition of `__transaction_state` that it leads."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from catchment.broker.coordinators.internal_topics import transactions_topic
from catchment.broker.coordinators.loading import replay_log
from catchment.broker.coordinators.marker_delivery import MarkerDelivery, WriteMarkers
from catchment.broker.coordinators.runtime import CoordinatorRuntime, answer_now, run_periodically
from catchment.broker.coordinators.shard_runner import Answer, ShardRunner
from catchment.cluster.controller import Controller
from catchment.cluster.metadata import PartitionImage
from catchment.coordination.coordinator_shard import Producer, UnreadableRecord
from catchment.coordination.timers import Moment
from catchment.coordination.transactions.commands import (
    FIRST_VERSION_WITH_EPOCH_BUMP,
    EndRequest,
    FreshProducerIdNeeded,
    InitRequest,
    MarkersToWrite,
    ProducerReply,
    ProducerResponse,
    TransactionLimits,
)
from catchment.coordination.transactions.records import NO_PRODUCER_ID, TopicPartition, Transaction
from catchment.ports.clock import Clock
from catchment.protocol.batch import CorruptBatch
from catchment.protocol.errors import ApiError
from catchment.replication.replicas import Replicas
from catchment.settings.broker import BrokerSettings
from catchment.storage.log import Log

if TYPE_CHECKING:
    from catchment.coordination.transactions.shard import TransactionShard


_COMMIT_TIMEOUT_MS = 30_000
_ABORTS_PER_TURN = 32
"""Other requests run after this many aborts."""

_ProducerCommand = Callable[["TransactionShard", int | None, ProducerReply, Moment], None]


class TransactionCoordinator:
    def __init__(
        self,
        settings: BrokerSettings,
        controller: Controller,
        replicas: Replicas,
        clock: Clock,
        write_markers: WriteMarkers,
    ) -> None:
        self._settings = settings
        self._controller = controller
        self._write_markers = write_markers
        self._runtime = CoordinatorRuntime(
            lambda image: transactions_topic(settings, image),
            self._new_shard,
            controller,
            replicas,
            clock,
            node_id=settings.node_id,
            commit_timeout_ms=_COMMIT_TIMEOUT_MS,
        )
        self._periodic_tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Load the shards of this broker, and follow the metadata image from now on. The replicas must follow it already."""
        await self._runtime.start()
        loop = asyncio.get_running_loop()
        abort_ms = self._settings.integer("transaction.abort.timed.out.transaction.cleanup.interval.ms")
        expire_ms = self._settings.integer("transaction.remove.expired.transaction.cleanup.interval.ms")
        self._periodic_tasks = [
            loop.create_task(run_periodically(abort_ms, self.abort_timed_out)),
            loop.create_task(run_periodically(expire_ms, self._expire)),
        ]

    async def close(self) -> None:
        for task in self._periodic_tasks:
            task.cancel()
        self._runtime.close()

    async def find(self, transactional_id: str) -> PartitionImage:
        """The partition of the transactional id. The topic is created with the first id."""
        return await self._runtime.find(transactional_id)

    async def init(self, request: InitRequest) -> Producer:
        """Register the producer of a transactional id, and fence the previous ones."""

        def command(shard: TransactionShard, fresh: int | None, reply: ProducerReply, now: Moment) -> None:
            shard.producers.init(request, fresh, reply, now)

        return await self._ask(request.transactional_id, command)

    async def end(self, request: EndRequest) -> Producer:
        """Commit or abort, and return the id and epoch to continue with. Markers may still be in flight."""

        def command(shard: TransactionShard, fresh: int | None, reply: ProducerReply, now: Moment) -> None:
            shard.ending.end(request, fresh, reply, now)

        return await self._once_completed(
            request.transactional_id, lambda: self._ask(request.transactional_id, command)
        )

    async def add_partitions(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], client_version: int
    ) -> None:
        """Add the partitions to the producer's transaction; ApiError if that is not allowed."""
        await self._once_completed(
            transactional_id, lambda: self._add_now(transactional_id, producer, partitions, client_version)
        )

    async def verify_partitions(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: Sequence[TopicPartition],
        *,
        adds: bool,
    ) -> dict[TopicPartition, ErrorCode]:
        """Verify that the partitions are part of the producer's transaction (KIP-890), or add them with `adds`."""
        producer = Producer(producer_id, producer_epoch)
        try:
            if adds:
                await self.add_partitions(transactional_id, producer, partitions, FIRST_VERSION_WITH_EPOCH_BUMP)
                return dict.fromkeys(partitions, ErrorCode.none)
            missing = await self._runtime.read(
                transactional_id, lambda shard, _: shard.partitions.missing(transactional_id, producer, partitions)
            )
        except ApiError as error:
            return dict.fromkeys(partitions, error.code)
        return {**dict.fromkeys(partitions, ErrorCode.none), **dict.fromkeys(missing, ErrorCode.transaction_abortable)}

    async def describe(self, transactional_id: str) -> Transaction:
        return await self._runtime.read(transactional_id, lambda shard, _: shard.queries.describe(transactional_id))

    async def listing(self) -> list[tuple[str, Transaction]]:
        """The transactional ids of all loaded shards; ApiError while one is still loading."""
        return await self._runtime.read_all(lambda shard, _: shard.queries.listing())

    async def _ask(self, transactional_id: str, command: _ProducerCommand) -> Producer:
        def with_id(
            fresh: int | None, shard: TransactionShard, now: Moment, reply: Callable[[ProducerResponse], None]
        ) -> None:
            command(shard, fresh, reply, now)

        answer: ProducerResponse
        try:
            answer = await self._runtime.ask(transactional_id, partial(with_id, None))
        except FreshProducerIdNeeded:
            fresh = await self._controller.next_producer_id()
            answer = await self._runtime.ask(transactional_id, partial(with_id, fresh))
        if answer.error is not ErrorCode.none:
            raise ApiError(answer.error)
        return answer.producer

    async def _add_now(
        self, transactional_id: str, producer: Producer, partitions: Sequence[TopicPartition], client_version: int
    ) -> None:
        def command(shard: TransactionShard, now: Moment, reply: Callable[[ErrorCode], None]) -> None:
            shard.partitions.add(transactional_id, producer, partitions, client_version, reply, now)

        error = await self._runtime.ask(transactional_id, command)
        if error is not ErrorCode.none:
            raise ApiError(error)

    async def _once_completed(self, transactional_id: str, ask: Callable[[], Awaitable[Answer]]) -> Answer:
        """Ask, and retry once the previous transaction is complete: that is soon, and sooner than the client would retry."""
        try:
            return await ask()
        except ApiError as error:
            if error.code is not ErrorCode.concurrent_transactions:
                raise
        await self._completed(transactional_id)
        return await ask()

    async def _completed(self, transactional_id: str) -> None:
        """Wait until no prepared transaction is pending, up to `add.partitions.to.txn.retry.backoff.max.ms`."""
        loop = asyncio.get_running_loop()
        completed = loop.create_future()

        def wake() -> None:
            if not completed.done():
                completed.set_result(None)

        max_wait_s = self._settings.integer("add.partitions.to.txn.retry.backoff.max.ms") / 1000
        timer = loop.call_later(max_wait_s, wake)
        runner = self._runtime.runner_of(transactional_id)
        runner.run(lambda shard, _: shard.ending.when_completed(transactional_id, wake))
        try:
            await completed
        finally:
            timer.cancel()
            with contextlib.suppress(ApiError):
                runner.run(lambda shard, _: shard.ending.stop_waiting(transactional_id, wake))

    def _new_shard(self) -> TransactionShard:
        from catchment.coordination.transactions.shard import TransactionShard

        delivery = MarkerDelivery(self._write_markers, self._exists)
        return TransactionShard(transaction_limits(self._settings), partial(self._deliver, delivery), delivery.close)

    def _deliver(self, delivery: MarkerDelivery, markers: MarkersToWrite) -> None:
        runner = self._runtime.runner_of(markers.transactional_id)

        def is_needed() -> bool:
            try:
                return answer_now(runner, lambda shard, _: shard.ending.awaits(markers))
            except ApiError:
                return False

        def delivered() -> None:
            # If the shard is unloaded, the one that replaces it sends the markers again.
            with contextlib.suppress(ApiError):
                runner.run(
                    lambda shard, now: shard.ending.markers_written(markers.transactional_id, markers.producer, now)
                )

        delivery.send(markers, runner.leader_epoch, is_needed, delivered)

    def _exists(self, partition: TopicPartition) -> bool:
        return self._controller.image.partition(*partition) is not None

    async def abort_timed_out(self) -> None:
        """Abort the transactions that have timed out. Other requests run in between."""
        for runner in self._runtime:
            with contextlib.suppress(ApiError):
                await self._abort_timed_out(runner)

    async def _abort_timed_out(self, runner: ShardRunner[TransactionShard]) -> None:
        timed_out = answer_now(runner, lambda shard, now: shard.ending.timed_out(now))
        for count, transactional_id in enumerate(timed_out, start=1):
            if count % _ABORTS_PER_TURN == 0:
                await asyncio.sleep(0)
            try:
                runner.run(partial(_abort_if_timed_out, transactional_id, None))
            except FreshProducerIdNeeded:
                fresh = await self._controller.next_producer_id()
                runner.run(partial(_abort_if_timed_out, transactional_id, fresh))

    async def _expire(self) -> None:
        for runner in self._runtime:
            with contextlib.suppress(ApiError):
                runner.run(lambda shard, now: shard.queries.expire(now))


def _abort_if_timed_out(transactional_id: str, fresh: int | None, shard: TransactionShard, now: Moment) -> None:
    shard.ending.abort_if_timed_out(transactional_id, fresh, now)


async def highest_producer_id(logs: Iterable[Log]) -> int:
    """The highest producer id in logs of `__transaction_state`, as in a log directory that another broker wrote.

    A producer may not have written any batch yet, so the logs of its partitions are not enough.
    """
    from catchment.coordination.transactions.shard import TransactionShard

    highest = NO_PRODUCER_ID
    for log in logs:
        shard = TransactionShard(TransactionLimits(), lambda _: None)
        # An unreadable partition is not served either, so no producer continues with the ids in it.
        with contextlib.suppress(ApiError, OSError, CorruptBatch, UnreadableRecord):
            await replay_log(log, log.log_end_offset, shard)
        for known in shard.state.logged.values():
            highest = max(highest, known.producer_id, known.next_producer_id)
    return highest


def transaction_limits(settings: BrokerSettings) -> TransactionLimits:
    return TransactionLimits(
        max_timeout_ms=settings.integer("transaction.max.timeout.ms"),
        expiration_ms=settings.integer("transactional.id.expiration.ms"),
    )
