"""The transaction coordinator on a broker: it verifies and adds partitions, and sends markers until all partitions have them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import TypeVar

import pytest
from kio.schema.errors import ErrorCode
from tests import waiting

from catchment.broker.coordinators.internal_topics import transactions_topic
from catchment.broker.coordinators.marker_delivery import MarkerDelivery
from catchment.broker.coordinators.runtime import run_periodically
from catchment.broker.coordinators.transactions import TransactionCoordinator
from catchment.broker.server import BrokerServer
from catchment.broker.transactions.markers import MarkerToWrite
from catchment.cluster.metadata import MetadataImage
from catchment.cluster.new_topic import NewTopic
from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.transactions.commands import EndRequest, InitRequest, MarkersToWrite
from catchment.coordination.transactions.records import TopicPartition, TransactionState
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.errors import ApiError
from catchment.settings.broker import BrokerSettings

DEADLINE_S = 150
Answer = TypeVar("Answer")
T0, T1 = ("t", 0), ("t", 1)
MARKERS = MarkersToWrite("x", Producer(7, 3), True, 2, (T0, T1))


@asynccontextmanager
async def running(disk: MemoryDisk | None = None, **settings: str) -> AsyncIterator[BrokerServer]:
    base = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": "/data",
        "transaction.state.log.num.partitions": "3",
        "offsets.topic.num.partitions": "1",
    }
    given = {name.replace("_", "."): value for name, value in settings.items()}
    server = BrokerServer(BrokerSettings({**base, **given}), disk=disk or MemoryDisk())
    await server.start()
    try:
        if "t" not in server.services.controller.image.topics:
            await server.services.controller.create_topic(NewTopic("t", 2))
        yield server
    finally:
        await server.close()


async def begun(transactions: TransactionCoordinator, name: str = "x") -> Producer:
    await transactions.find(name)
    return await until_served(lambda: transactions.init(InitRequest(name, 60_000)))


async def until_served(ask: Callable[[], Awaitable[Answer]]) -> Answer:
    """Ask until the coordinator is loaded."""
    async with asyncio.timeout(DEADLINE_S):
        while True:
            try:
                return await ask()
            except ApiError as error:
                if error.code is not ErrorCode.coordinator_load_in_progress:
                    raise
                await asyncio.sleep(0)


async def until(holds: Callable[[], Awaitable[bool]]) -> None:
    async with asyncio.timeout(DEADLINE_S):
        while True:
            if await until_served(holds):
                return
            await asyncio.sleep(0)


async def test_partitions_are_verified_and_added_on_behalf_of_a_producer() -> None:
    async with running() as server:
        transactions = server.services.transactions
        producer = await begun(transactions)
        verified = await transactions.verify_partitions("x", *producer, [T0], adds=False)
        assert verified == {T0: ErrorCode.transaction_abortable}
        assert await transactions.verify_partitions("x", *producer, [T0], adds=True) == {T0: ErrorCode.none}
        assert await transactions.verify_partitions("x", *producer, [T0, T1], adds=False) == {
            T0: ErrorCode.none,
            T1: ErrorCode.transaction_abortable,
        }
        old = producer._replace(epoch=producer.epoch - 1)
        for adds in (True, False):
            refused = await transactions.verify_partitions("x", *old, [T0], adds=adds)
            assert refused == {T0: ErrorCode.producer_fenced}


async def test_the_next_transaction_waits_until_the_previous_one_is_complete() -> None:
    async with running() as server:
        transactions = server.services.transactions
        producer = await begun(transactions)
        for _ in range(20):
            added = await transactions.verify_partitions("x", *producer, [T0, T1], adds=True)
            assert added == {T0: ErrorCode.none, T1: ErrorCode.none}
            producer = await transactions.end(EndRequest("x", producer, True, 2))


async def test_a_transaction_waits_for_the_previous_one_up_to_a_limit() -> None:
    unreachable = Partitions(*[{T0: ErrorCode.not_leader_or_follower}] * 1000)
    async with running(add_partitions_to_txn_retry_backoff_max_ms="1") as server:
        services = server.services
        transactions = TransactionCoordinator(
            services.settings, services.controller, services.replicas, services.clock, unreachable.write
        )
        await transactions.start()
        producer = await begun(transactions)
        await transactions.add_partitions("x", producer, [T0], 0)
        await transactions.end(EndRequest("x", producer, True, 0))
        with pytest.raises(ApiError) as refused:
            await transactions.add_partitions("x", producer, [T1], 0)
        assert refused.value.code is ErrorCode.concurrent_transactions
        await transactions.close()


async def test_ids_are_spread_over_the_partitions_and_listed_together() -> None:
    names = [f"id-{number}" for number in range(20)]
    async with running() as server:
        transactions = server.services.transactions
        homes = set()
        for name in names:
            await begun(transactions, name)
            homes.add((await transactions.find(name)).partition)
        assert homes == {0, 1, 2}
        assert sorted(name for name, _ in await transactions.listing()) == sorted(names)


async def test_a_prepared_transaction_is_completed_after_a_restart() -> None:
    disk = MemoryDisk()
    async with running(disk) as server:
        transactions = server.services.transactions
        producer = await begun(transactions)
        await transactions.add_partitions("x", producer, [T0], 2)
        await transactions.end(EndRequest("x", producer, True, 2))
    async with running(disk) as server:
        transactions = server.services.transactions

        async def is_committed() -> bool:
            return (await transactions.describe("x")).state is TransactionState.COMPLETE_COMMIT

        await until(is_committed)


async def test_other_requests_run_while_many_timed_out_transactions_are_aborted() -> None:
    names = [f"id-{number}" for number in range(100)]
    async with running(
        transaction_state_log_num_partitions="1",
        transaction_abort_timed_out_transaction_cleanup_interval_ms="3600000",
    ) as server:
        transactions = server.services.transactions
        await begun(transactions, "first")
        for name in names:
            producer = await transactions.init(InitRequest(name, 1))
            await transactions.add_partitions(name, producer, [T0], 2)
        counts: set[int] = set()

        async def all_have_ended() -> bool:
            listed = await transactions.listing()
            counts.add(sum(known.state is TransactionState.ONGOING for _, known in listed))
            return 0 in counts

        assert not await all_have_ended()
        aborting = asyncio.create_task(run_periodically(1, transactions.abort_timed_out))
        await until(all_have_ended)
        aborting.cancel()
        assert counts > {0, 100}


async def test_idle_ids_expire() -> None:
    async with running(
        transactional_id_expiration_ms="1", transaction_remove_expired_transaction_cleanup_interval_ms="5"
    ) as server:
        transactions = server.services.transactions
        await begun(transactions)

        async def is_forgotten() -> bool:
            return not await transactions.listing()

        await until(is_forgotten)


def test_the_topic_has_no_more_replicas_than_there_are_brokers() -> None:
    topic = transactions_topic(BrokerSettings({}), MetadataImage())
    assert (topic.partition_count, topic.replication_factor) == (50, 1)
    assert topic.settings["min.insync.replicas"] == "1"
    assert topic.settings["cleanup.policy"] == "compact"


class Partitions:
    """Partitions that return the given error codes once each, and accept their markers after that."""

    def __init__(self, *answers: Mapping[TopicPartition, ErrorCode]) -> None:
        self.answers = list(answers)
        self.asked: list[Sequence[TopicPartition]] = []
        self.markers: list[MarkerToWrite] = []

    async def write(
        self, marker: MarkerToWrite, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        self.asked.append(list(partitions))
        self.markers.append(marker)
        refused = self.answers.pop(0) if self.answers else {}
        return {partition: refused.get(partition, ErrorCode.none) for partition in partitions}


async def delivered(partitions: Partitions, exists: bool = True, needed: Callable[[], bool] = lambda: True) -> bool:
    delivery = MarkerDelivery(partitions.write, lambda _: exists)
    done = asyncio.Event()
    delivery.send(MARKERS, 5, needed, done.set)
    await all_others()
    return done.is_set()


async def all_others() -> None:
    """Wait until no other task is running."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    if others:
        _, unfinished = await asyncio.wait(others, timeout=DEADLINE_S)
        assert not unfinished


async def test_markers_are_sent_again_only_to_partitions_without_one() -> None:
    partitions = Partitions({T1: ErrorCode.not_leader_or_follower}, {T1: ErrorCode.unknown_topic_or_partition})
    assert await delivered(partitions)
    assert partitions.asked == [[T0, T1], [T1], [T1]]
    assert set(partitions.markers) == {MarkerToWrite(7, 3, 5, is_commit=True, transaction_version=2)}


@pytest.mark.parametrize(
    ("code", "exists"), [(ErrorCode.unknown_topic_or_partition, False), (ErrorCode.invalid_producer_epoch, True)]
)
async def test_a_partition_that_needs_no_marker_gets_none(code: ErrorCode, exists: bool) -> None:
    partitions = Partitions({T1: code})
    assert await delivered(partitions, exists)
    assert partitions.asked == [[T0, T1]]


async def test_a_replaced_coordinator_stops_sending_markers() -> None:
    partitions = Partitions({T1: ErrorCode.transaction_coordinator_fenced})
    assert not await delivered(partitions)
    assert partitions.asked == [[T0, T1]]


async def test_markers_that_are_no_longer_needed_are_not_written() -> None:
    partitions = Partitions({T1: ErrorCode.not_leader_or_follower})
    assert not await delivered(partitions, needed=iter([True, False]).__next__)
    assert partitions.asked == [[T0, T1]]


async def test_a_fault_while_markers_are_written_does_not_end_their_delivery() -> None:
    partitions = Partitions()
    faults = [ZeroDivisionError(), OSError(24, "Too many open files")]

    async def write(marker: MarkerToWrite, asked: Sequence[TopicPartition]) -> Mapping[TopicPartition, ErrorCode]:
        if faults:
            raise faults.pop()
        return await partitions.write(marker, asked)

    delivery = MarkerDelivery(write, lambda _: True)
    done = asyncio.Event()
    delivery.send(MARKERS, 5, lambda: True, done.set)
    async with asyncio.timeout(DEADLINE_S):
        await done.wait()
    assert partitions.asked == [[T0, T1]]


async def test_closing_stops_deliveries_and_none_starts_afterwards() -> None:
    partitions = Partitions(*[{T0: ErrorCode.not_leader_or_follower}] * 100)
    delivery = MarkerDelivery(partitions.write, lambda _: True)
    delivery.send(MARKERS, 5, lambda: True, pytest.fail)
    await asyncio.sleep(0)
    delivery.close()
    delivery.send(MARKERS, 5, lambda: True, pytest.fail)
    await all_others()
    assert len(partitions.asked) == 1


class Gate:
    """Partitions that accept markers one delivery at a time: each waits until it is released."""

    def __init__(self) -> None:
        self.waiting: list[asyncio.Future[None]] = []
        self.written: list[MarkerToWrite] = []

    async def write(
        self, marker: MarkerToWrite, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        self.waiting.append(asyncio.get_running_loop().create_future())
        await self.waiting[-1]
        self.written.append(marker)
        return dict.fromkeys(partitions, ErrorCode.none)

    async def arrives(self, count: int) -> None:
        await waiting.until(lambda: len(self.waiting) >= count)


async def test_a_delivery_ends_with_its_shard_and_the_next_shard_starts_it_again() -> None:
    """A COMMIT that outlived its shard would end the producer's next transaction, which may have to be aborted."""
    gate, disk = Gate(), MemoryDisk()
    async with running(disk, transaction_state_log_num_partitions="1") as server:
        services = server.services
        transactions = TransactionCoordinator(
            services.settings, services.controller, services.replicas, services.clock, gate.write
        )
        await transactions.start()
        producer = await begun(transactions)
        await transactions.add_partitions("x", producer, [T0], 0)
        await transactions.end(EndRequest("x", producer, True, 0))
        await gate.arrives(1)
        disk.fill()
        with pytest.raises(ApiError):
            await transactions.init(InitRequest("y", 60_000))
        disk.make_room()
        await gate.arrives(2)
        assert gate.waiting[0].cancelled()
        gate.waiting[1].set_result(None)

        async def is_committed() -> bool:
            return (await transactions.describe("x")).state is TransactionState.COMPLETE_COMMIT

        await until(is_committed)
        await transactions.add_partitions("x", producer, [T0], 0)
        assert len(gate.written) == 1
        assert (await transactions.describe("x")).state is TransactionState.ONGOING
        await transactions.close()
