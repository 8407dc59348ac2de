"""The periodic maintenance of logs: what it does, and how often."""

from uuid import UUID

from tests.waiting import until

from catchment.cluster.metadata import MetadataImage, PartitionImage, TopicImage
from catchment.ports.clock import SystemClock
from catchment.ports.disk import Disk
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.records import encode_batch, numbered
from catchment.replication.maintenance import LogMaintenance
from catchment.replication.replicas import Replicas
from catchment.settings.broker import BrokerSettings
from catchment.storage.directory import LogDirectory


def _replicas(disk: Disk, settings: BrokerSettings, topic_settings: dict[str, str]) -> Replicas:
    directory = LogDirectory(disk, SystemClock(), "/logs", node_id=1)
    replicas = Replicas(settings, disk, [directory])
    directory.open_logs(lambda topic: replicas.log_config({}))
    state = PartitionImage(0, leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
    topic = TopicImage("a", UUID(int=1), (state,), topic_settings)
    replicas.apply(MetadataImage(), MetadataImage().with_topics([topic]))
    return replicas


def _append(replicas: Replicas, timestamp_ms: int) -> None:
    batch = encode_batch(numbered([(None, b"x")]), base_timestamp_ms=timestamp_ms)
    replicas.find("a", 0).append(memoryview(batch), 1)


async def test_retention_deletes_old_records_and_frees_their_space() -> None:
    disk = MemoryDisk()
    settings = BrokerSettings({"log.retention.check.interval.ms": "10"})
    replicas = _replicas(disk, settings, {"retention.ms": "1000", "file.delete.delay.ms": "0"})
    _append(replicas, SystemClock().now_ms() - 5000)
    log = replicas.find("a", 0).log
    await replicas.synced()
    maintenance = LogMaintenance(replicas, SystemClock(), lambda: settings)
    maintenance.start()
    await until(lambda: log.log_start_offset == 1)
    await until(lambda: not disk.exists(f"{log.directory}/00000000000000000000.log.deleted"))
    assert not disk.exists(f"{log.directory}/00000000000000000000.log")
    await maintenance.close()


async def test_flush_ms_alone_syncs_records() -> None:
    settings = BrokerSettings({"catchment.sync.acks": "false"})
    replicas = _replicas(MemoryDisk(), settings, {"flush.ms": "10"})
    _append(replicas, SystemClock().now_ms())
    log = replicas.find("a", 0).log
    assert log.synced_offset == 0
    maintenance = LogMaintenance(replicas, SystemClock(), lambda: settings)
    maintenance.start()
    await until(lambda: log.synced_offset == 1)
    await maintenance.close()


async def test_the_next_start_uses_the_checkpoints() -> None:
    disk = MemoryDisk()
    settings = BrokerSettings({"log.flush.offset.checkpoint.interval.ms": "10"})
    replicas = _replicas(disk, settings, {})
    _append(replicas, SystemClock().now_ms())
    await replicas.synced()
    maintenance = LogMaintenance(replicas, SystemClock(), lambda: settings)
    maintenance.start()
    await until(lambda: disk.exists("/logs/recovery-point-offset-checkpoint"))
    await until(lambda: b"a 0 1" in disk.read_file("/logs/recovery-point-offset-checkpoint"))
    await maintenance.close()


async def test_a_topic_whose_log_could_not_be_created_opens_once_there_is_space() -> None:
    disk = MemoryDisk()
    settings = BrokerSettings()
    replicas = _replicas(disk, settings, {})
    state = PartitionImage(0, leader=1, leader_epoch=0, replicas=(1,), isr=(1,))
    late = TopicImage("late", UUID(int=2), (state,), {})
    disk.fail_writes = True
    replicas.apply(MetadataImage(), MetadataImage().with_topics([late]))
    disk.fail_writes = False
    assert replicas.find("late", 0).topic == "late"
    assert replicas.find(UUID(int=2), 0) is replicas.find("late", 0)
