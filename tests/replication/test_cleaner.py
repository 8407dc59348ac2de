"""The log cleaner: which log it chooses, how it swaps, and what happens when something goes wrong meanwhile."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Generator
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import pytest
from tests.storage.compaction.cleaning import COMPACTED, data_records, keyed
from tests.waiting import until

from catchment.ports.clock import ManualClock
from catchment.ports.disk import Disk
from catchment.ports.memory_disk import MemoryDisk
from catchment.ports.real_disk import RealDisk
from catchment.ports.workers import LoopWorker, ProcessWorker, Worker, WorkerDied
from catchment.replication.cleaner import LogCleaner
from catchment.replication.group_commit import GroupCommit
from catchment.replication.partition import Partition
from catchment.settings.broker import BrokerSettings
from catchment.storage import checkpoint
from catchment.storage.config import LogConfig
from catchment.storage.recovery import create_log, open_log

NOW_MS = 1_700_000_000_000
CONFIG = replace(COMPACTED, sync_acks=False, min_cleanable_dirty_ratio=0.5)
Argument = TypeVar("Argument")
Result = TypeVar("Result")


class InterruptedWorker(LoopWorker):
    """Runs one job, and then calls a function before it returns the result."""

    def __init__(self, disk: Disk, interruption: Callable[[], None]) -> None:
        super().__init__(disk)
        self._interruption: Callable[[], None] | None = interruption

    async def run(self, task: Callable[[Disk, Argument], Generator[None, None, Result]], argument: Argument) -> Result:
        result = await super().run(task, argument)
        interruption, self._interruption = self._interruption, None
        if interruption is not None:
            interruption()
        return result


class DyingWorker:
    def __init__(self) -> None:
        self.tries = 0

    async def run(self, task: Callable[[Disk, Argument], Generator[None, None, Result]], argument: Argument) -> Result:
        self.tries += 1
        raise WorkerDied("the process ended with code -9")

    async def rest(self) -> None:
        """Nothing is held."""


class Broker:
    """Partitions, and a cleaner for them."""

    def __init__(self, disk: Disk | None = None, root: str = "/logs") -> None:
        self.disk = disk or MemoryDisk()
        self.root = root
        self.clock = ManualClock(NOW_MS)
        self.partitions: list[Partition] = []
        self.settings = BrokerSettings({"log.cleaner.backoff.ms": "1"})
        self.disk.make_directory(root)

    def create(self, topic: str, config: LogConfig = CONFIG) -> Partition:
        log = create_log(self.disk, self.clock, f"{self.root}/{topic}-0", topic, 0, None, config)
        self.partitions.append(Partition(topic, log, GroupCommit(self.disk), leader_epoch=0))
        return self.partitions[-1]

    def reopen(self, partition: Partition) -> None:
        partition.log.close()
        log = open_log(self.disk, self.clock, partition.log.directory, partition.topic, 0, CONFIG)
        self.partitions = [Partition(partition.topic, log, GroupCommit(self.disk), leader_epoch=0)]

    def cleaner(self, worker: Worker | None = None) -> LogCleaner:
        return LogCleaner(
            self.partitions, self.disk, self.clock, lambda: self.settings, worker or LoopWorker(self.disk)
        )

    def checkpoint(self) -> dict[tuple[str, int], int]:
        return checkpoint.read_offsets(self.disk, f"{self.root}/cleaner-offset-checkpoint")

    def leftovers(self, partition: Partition) -> list[str]:
        names = [entry.name for entry in self.disk.list_directory(partition.log.directory)]
        return [name for name in names if name.endswith((".cleaned", ".swap"))]


def fill(partition: Partition, count: int = 40, keys: int = 3) -> None:
    for number in range(count):
        pair = b"%d" % (number % keys), b"%d" % number
        partition.append(keyed(pair, timestamp_ms=NOW_MS), acks=1)
    partition.log.roll()


def values(partition: Partition) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in data_records(partition.log)}


async def test_only_dirty_logs_are_cleaned() -> None:
    broker = Broker()
    dirty, plain = broker.create("dirty"), broker.create("plain", replace(CONFIG, cleanup_policy=frozenset({"delete"})))
    fill(dirty)
    fill(plain)
    assert await broker.cleaner().clean_all() == 1
    assert values(dirty) == {b"0": b"39", b"1": b"37", b"2": b"38"}
    assert len(data_records(plain.log)) == 40
    assert broker.checkpoint() == {("dirty", 0): 40}
    assert broker.leftovers(dirty) == []


async def test_a_restart_continues_from_the_checkpoint() -> None:
    broker = Broker()
    partition = broker.create("flow")
    fill(partition)
    await broker.cleaner().clean_all()
    broker.reopen(partition)
    assert await broker.cleaner().clean_all() == 0
    fill(broker.partitions[0])
    assert await broker.cleaner().clean_all() == 1
    assert len(data_records(broker.partitions[0].log)) == 3
    assert broker.checkpoint() == {("flow", 0): 80}


async def test_the_real_disk_is_cleaned_by_another_process(tmp_path: Path) -> None:
    broker = Broker(RealDisk(), str(tmp_path / "logs"))
    partition = broker.create("flow")
    fill(partition)
    worker = ProcessWorker()
    cleaner = broker.cleaner(worker)
    assert await cleaner.clean_all() == 1
    assert values(partition) == {b"0": b"39", b"1": b"37", b"2": b"38"}
    assert broker.checkpoint() == {("flow", 0): 40}
    assert broker.leftovers(partition) == []
    broker.reopen(partition)
    assert values(broker.partitions[0]) == {b"0": b"39", b"1": b"37", b"2": b"38"}
    await cleaner.close()


async def test_appends_continue_while_a_log_is_cleaned() -> None:
    broker = Broker()
    partition = broker.create("flow")
    fill(partition)
    cleaning = asyncio.create_task(broker.cleaner().clean_all())
    appended = 0
    while appended < 60 and not cleaning.done():
        pair = b"new%d" % appended, b"1"
        assert partition.append(keyed(pair, timestamp_ms=NOW_MS), acks=1).base_offset == 40 + appended
        appended += 1
        await asyncio.sleep(0)
    assert appended == 60
    assert await cleaning >= 1
    left = data_records(partition.log)
    assert [record.offset for record in left] == [37, 38, 39, *range(40, 100)]
    assert partition.high_watermark == 100


async def test_a_log_that_loses_segments_meanwhile_is_not_swapped() -> None:
    broker = Broker()
    partition = broker.create("flow")
    fill(partition)
    before = len(data_records(partition.log))
    worker = InterruptedWorker(broker.disk, lambda: partition.log.advance_log_start(20))
    assert await broker.cleaner(worker).clean_all() == 0
    assert 20 <= len(data_records(partition.log)) < before
    assert broker.leftovers(partition) == []
    assert broker.checkpoint() == {}
    assert await broker.cleaner().clean_all() == 1
    assert len(data_records(partition.log)) == 3


async def test_a_topic_deleted_or_no_longer_compacted_meanwhile_is_not_touched() -> None:
    broker = Broker()
    partition = broker.create("flow")
    fill(partition)
    assert await broker.cleaner(InterruptedWorker(broker.disk, broker.partitions.clear)).clean_all() == 0
    broker.partitions.append(partition)

    def stop_compacting() -> None:
        partition.log.update_config(replace(CONFIG, cleanup_policy=frozenset({"delete"})))

    assert await broker.cleaner(InterruptedWorker(broker.disk, stop_compacting)).clean_all() == 0
    assert len(data_records(partition.log)) == 40
    assert broker.leftovers(partition) == []


async def test_the_checkpoint_of_a_deleted_log_does_not_count_for_a_new_one_of_its_name() -> None:
    broker = Broker()
    fill(broker.create("flow"))
    fill(broker.create("other"))
    cleaner = broker.cleaner()
    assert await cleaner.clean_all() == 2
    broker.partitions.pop(0)
    broker.disk.remove_tree("/logs/flow-0")
    successor = broker.create("flow")
    fill(successor, count=10)
    fill(successor, count=60, keys=40)
    assert await cleaner.clean_all() == 1
    assert len(data_records(successor.log)) == 40
    broker.partitions.clear()
    broker.create("third")
    assert await cleaner.clean_all() == 0
    assert broker.checkpoint() == {}


async def test_after_a_worker_dies_the_log_is_unchanged_and_cleaned_later(caplog: pytest.LogCaptureFixture) -> None:
    broker = Broker()
    partition = broker.create("flow")
    fill(partition)
    worker = DyingWorker()
    cleaner = broker.cleaner(worker)
    with caplog.at_level(logging.ERROR):
        assert await cleaner.clean_all() == 0
    assert "flow-0 could not be compacted" in caplog.text
    assert await cleaner.clean_all() == 0
    assert worker.tries == 1
    broker.clock.advance(60_000)
    assert await cleaner.clean_all() == 0
    assert worker.tries == 2
    assert len(data_records(partition.log)) == 40


async def test_a_full_disk_leaves_the_log_unchanged_and_no_files() -> None:
    disk = MemoryDisk()
    broker = Broker(disk)
    partition = broker.create("flow")
    fill(partition)
    cleaner = broker.cleaner()
    disk.fill(100)
    assert await cleaner.clean_all() == 0
    assert broker.leftovers(partition) == []
    assert len(data_records(partition.log)) == 40
    disk.make_room()
    broker.clock.advance(60_000)
    assert await cleaner.clean_all() == 1
    assert len(data_records(partition.log)) == 3


async def test_a_started_cleaner_cleans_unless_it_is_disabled() -> None:
    broker = Broker()
    partition = broker.create("flow")
    fill(partition)
    turns = 0

    def settings() -> BrokerSettings:
        nonlocal turns
        turns += 1
        return BrokerSettings({"log.cleaner.backoff.ms": "1", "log.cleaner.enable": "false" if turns < 5 else "true"})

    cleaner = LogCleaner(broker.partitions, broker.disk, broker.clock, settings, LoopWorker(broker.disk))
    cleaner.start()
    await until(lambda: turns == 4)
    assert len(data_records(partition.log)) == 40
    await until(lambda: len(data_records(partition.log)) == 3)
    await cleaner.close()
    assert asyncio.all_tasks() == {asyncio.current_task()}
