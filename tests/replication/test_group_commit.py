"""Group commit: one round serves all partitions, and the failure of one does not affect the others."""

import asyncio
from collections.abc import Sequence
from random import Random
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from catchment.cluster.metadata import MetadataImage, PartitionImage, TopicImage
from catchment.ports.clock import ManualClock
from catchment.ports.disk import Replacement, SyncGroup
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.errors import ApiError
from catchment.protocol.records import encode_batch, numbered
from catchment.replication.group_commit import DirectorySync, GroupCommit
from catchment.replication.partition import Partition
from catchment.replication.replicas import Replicas
from catchment.settings.broker import BrokerSettings
from catchment.storage import layout
from catchment.storage.config import LogConfig
from catchment.storage.directory import LogDirectory
from catchment.storage.recovery import create_log, open_log

ALL = -1
SYNCED = LogConfig(sync_acks=True)


class CountingDisk(MemoryDisk):
    """A disk whose rounds wait until they are released; files of `bad` partitions fail."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.rounds: list[int] = []
        self.bad = ""
        self.fails_replacements = False
        self.fault: Exception | None = None
        """Raised once."""

    async def sync_groups(self, groups: Sequence[SyncGroup]) -> list[OSError | None]:
        self.rounds.append(len(groups))
        await self.gate.wait()
        if self.fault is not None:
            fault, self.fault = self.fault, None
            raise fault
        failures = await super().sync_groups(groups)
        for number, group in enumerate(groups):
            if self.bad and any(self.bad in file.path for file in group.files):
                failures[number] = OSError("the device failed")
        return failures

    async def replace_files(self, replacements: Sequence[Replacement]) -> None:
        if self.fails_replacements:
            raise OSError("no space")
        await super().replace_files(replacements)


def partitions_on(
    disk: MemoryDisk, count: int, config: LogConfig = SYNCED, commits: GroupCommit | None = None
) -> list[Partition]:
    disk.make_directory("/logs")
    commits = commits or GroupCommit(disk)
    made = []
    for number in range(count):
        log = create_log(disk, ManualClock(), f"/logs/a-{number}", "a", number, None, config)
        made.append(Partition("a", log, commits, leader_epoch=0))
        made[-1].isr = (1,)
    return made


def batch(value: bytes = b"x") -> memoryview:
    return memoryview(encode_batch(numbered([(None, value)]), base_timestamp_ms=ManualClock().now_ms()))


def append(partition: Partition, value: bytes = b"x") -> "asyncio.Future[None]":
    safe = partition.durable(partition.append(batch(value), ALL))
    assert safe is not None
    return safe


async def test_one_round_serves_all_partitions_and_later_appends_wait_for_the_next() -> None:
    disk = CountingDisk()
    partitions = partitions_on(disk, 24)
    first = [append(partition) for partition in partitions]
    await asyncio.sleep(0)
    later = [append(partition) for _ in range(5) for partition in partitions[:10]]
    await asyncio.sleep(0)
    assert disk.rounds == [24]
    disk.gate.set()
    await asyncio.gather(*first, *later)
    assert disk.rounds == [24, 10]
    assert [partition.high_watermark for partition in partitions] == [6] * 10 + [1] * 14


async def test_a_round_acknowledges_only_what_it_synced() -> None:
    disk = CountingDisk()
    (partition,) = partitions_on(disk, 1)
    steps: list[int] = []
    partition.readers.add(lambda: steps.append(partition.high_watermark))
    first = append(partition)
    await asyncio.sleep(0)
    later = append(partition)
    disk.gate.set()
    await asyncio.gather(first, later)
    assert steps == [1, 2]


async def test_a_failed_sync_takes_only_its_own_log_offline() -> None:
    disk = CountingDisk()
    disk.gate.set()
    disk.bad = "a-1/"
    partitions = partitions_on(disk, 3)
    outcomes = await asyncio.gather(*(append(partition) for partition in partitions), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [type(None), ApiError, type(None)]
    assert [partition.log.is_offline for partition in partitions] == [False, True, False]
    await append(partitions[2])


class FaultyMember:
    """A member that raises at one step."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.failures: list[OSError | None] = []

    def begin_sync(self) -> SyncGroup:
        if self.step == "begin":
            raise RuntimeError("a fault")
        return SyncGroup(())

    def end_sync(self, failure: OSError | None) -> None:
        self.failures.append(failure)
        if self.step == "end":
            raise RuntimeError("a fault")


@pytest.mark.parametrize("step", ["begin", "end"])
async def test_a_faulty_member_does_not_affect_the_others(step: str) -> None:
    disk = CountingDisk()
    disk.gate.set()
    commits = GroupCommit(disk)
    (partition,) = partitions_on(disk, 1, commits=commits)
    faulty = FaultyMember(step)
    commits.add(faulty)
    await append(partition)
    assert [failure is None for failure in faulty.failures] == [step == "end"]
    assert not partition.log.is_offline


async def test_the_next_round_runs_after_a_fault_ended_the_last() -> None:
    disk = CountingDisk()
    first, second = partitions_on(disk, 2)
    lost = append(first)
    await asyncio.sleep(0)
    kept = append(second)
    disk.fault = RuntimeError("a fault")
    disk.gate.set()
    with pytest.raises(ApiError):
        await lost
    await kept
    assert [first.log.is_offline, second.log.is_offline] == [True, False]


async def test_a_sync_that_succeeds_after_one_that_failed_proves_nothing() -> None:
    disk = CountingDisk()
    disk.bad = "a-0/"
    (partition,) = partitions_on(disk, 1)
    first = append(partition)
    await asyncio.sleep(0)
    second = append(partition)
    disk.gate.set()
    for lost in (first, second):
        with pytest.raises(ApiError) as failure:
            await lost
        assert failure.value.code is ErrorCode.kafka_storage_error
    disk.bad = ""
    partition.flush_if_overdue(1 << 60)
    await partition.synced()
    assert (partition.high_watermark, partition.log.synced_offset) == (0, 0)


async def test_a_partition_that_is_deleted_during_a_round_fails_no_other() -> None:
    disk = CountingDisk()
    gone, kept = partitions_on(disk, 2)
    lost, safe = append(gone), append(kept)
    await asyncio.sleep(0)
    gone.stop()
    gone.log.close(clean=False)
    disk.rename(gone.log.directory, "/logs/a-0.deleted")
    disk.bad = "a-0/"
    disk.gate.set()
    await safe
    with pytest.raises(ApiError) as failure:
        await lost
    assert failure.value.code is ErrorCode.not_leader_or_follower
    assert not gone.log.is_offline


async def test_an_interrupted_round_acknowledges_nothing() -> None:
    class Broken(MemoryDisk):
        async def sync_groups(self, groups: Sequence[SyncGroup]) -> list[OSError | None]:
            raise RuntimeError("a fault of ours")

    (partition,) = partitions_on(Broken(), 1)
    with pytest.raises(ApiError):
        await append(partition)
    assert partition.log.is_offline


async def test_a_directory_is_durable_once_its_round_is_over() -> None:
    disk = CountingDisk()
    disk.make_directory("/logs")
    disk.sync_directory("/")
    disk.make_directory("/logs/b")
    names = DirectorySync("/logs")
    GroupCommit(disk).add(names)
    await asyncio.sleep(0)
    assert not names.done.done()
    disk.gate.set()
    await names.done
    assert all(disk.crash(Random(seed)).exists("/logs/b") for seed in range(20))


ROLLING = LogConfig(sync_acks=True, segment_bytes=200)


async def test_the_recovery_point_passes_a_segment_once_its_epochs_are_on_the_device() -> None:
    disk = CountingDisk()
    disk.gate.set()
    disk.fails_replacements = True
    (partition,) = partitions_on(disk, 1, ROLLING)
    for _ in range(4):
        await append(partition, b"x" * 50)
    await partition.synced()
    assert len(partition.log.segments) > 1
    assert partition.log.recovery_point == 0
    disk.fails_replacements = False
    await append(partition, b"x" * 50)
    await partition.synced()
    assert partition.log.recovery_point == 5


@pytest.mark.parametrize("seed", range(30))
async def test_epochs_survive_a_power_loss_at_any_moment_of_a_roll(seed: int) -> None:
    random = Random(seed)
    disk = CountingDisk()
    disk.gate.set()
    (partition,) = partitions_on(disk, 1, ROLLING)
    disk.sync_directory("/")
    for epoch in range(random.randint(1, 8)):
        partition.leader_epoch = epoch
        for _ in range(random.randint(1, 3)):
            await append(partition, b"x" * 50)
    log = partition.log
    expected = log.leader_epochs.entries
    after = disk.crash(random)
    found = open_log(after, ManualClock(), log.directory, "a", 0, ROLLING, recovery_point=log.recovery_point)
    assert found.log_end_offset == log.log_end_offset
    assert found.leader_epochs.entries == expected


async def test_a_clean_stop_syncs_all_logs_together() -> None:
    disk = CountingDisk()
    disk.gate.set()
    directory = LogDirectory(disk, ManualClock(), "/logs", node_id=1)
    replicas = Replicas(BrokerSettings({"catchment.sync.acks": "false"}), disk, [directory])
    directory.open_logs(lambda topic: replicas.log_config({}))
    states = tuple(PartitionImage(number, leader=1, leader_epoch=0, replicas=(1,), isr=(1,)) for number in range(50))
    replicas.apply(MetadataImage(), MetadataImage().with_topics([TopicImage("a", UUID(int=1), states, {})]))
    for number in range(40):
        replicas.find("a", number).append(batch(), 1)
    await replicas.finish()
    assert disk.rounds == [40]
    # So the close itself has nothing left to sync.
    assert not any(log.has_changed for log in directory.logs.values())
    directory.close()
    after = LogDirectory(disk.crash(Random(1)), ManualClock(), "/logs", node_id=1)
    after.open_logs(lambda topic: replicas.log_config({}))
    assert after.was_clean
    assert sorted(log.log_end_offset for log in after.logs.values()) == [0] * 10 + [1] * 40
    assert all(log.leader_epochs.latest == 0 for log in after.logs.values() if log.log_end_offset)


async def test_a_log_that_cannot_be_finished_makes_the_stop_unclean() -> None:
    disk = CountingDisk()
    disk.gate.set()
    directory = LogDirectory(disk, ManualClock(), "/logs", node_id=1)
    replicas = Replicas(BrokerSettings({"catchment.sync.acks": "false"}), disk, [directory])
    directory.open_logs(lambda topic: replicas.log_config({}))
    states = tuple(PartitionImage(number, leader=1, leader_epoch=0, replicas=(1,), isr=(1,)) for number in range(2))
    replicas.apply(MetadataImage(), MetadataImage().with_topics([TopicImage("a", UUID(int=1), states, {})]))
    for number in range(2):
        replicas.find("a", number).append(batch(), 1)
    disk.bad = "a-1/"
    await replicas.finish()
    directory.close()
    assert not disk.exists(f"/logs/{layout.CLEAN_SHUTDOWN}")
