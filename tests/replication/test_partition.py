"""A partition's high watermark: what moves it, which requests it wakes, and what a failing disk does to it."""

import asyncio
from collections.abc import Sequence

import pytest
from kio.schema.errors import ErrorCode

from catchment.ports.clock import ManualClock
from catchment.ports.disk import SyncGroup
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.errors import ApiError
from catchment.protocol.records import encode_batch, numbered
from catchment.replication.group_commit import GroupCommit
from catchment.replication.partition import Partition
from catchment.storage.config import LogConfig
from catchment.storage.recovery import create_log

ALL = -1


class SlowDisk(MemoryDisk):
    """A disk whose syncs are counted, and wait until they are released."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()
        self.syncs = 0

    async def sync_groups(self, groups: Sequence[SyncGroup]) -> list[OSError | None]:
        self.syncs += 1
        await self.gate.wait()
        return await super().sync_groups(groups)


def _partition(disk: MemoryDisk, config: LogConfig) -> Partition:
    disk.make_directory("/logs")
    log = create_log(disk, ManualClock(), "/logs/a-0", "a", 0, None, config)
    partition = Partition("a", log, GroupCommit(disk), leader_epoch=0)
    partition.isr = (1,)
    return partition


def _batch(value: bytes = b"x", count: int = 1) -> memoryview:
    return memoryview(encode_batch(numbered([(None, value)] * count), base_timestamp_ms=ManualClock().now_ms()))


async def test_the_high_watermark_waits_for_the_disk() -> None:
    disk = SlowDisk()
    partition = _partition(disk, LogConfig(sync_acks=True))
    safe = partition.durable(partition.append(_batch(), ALL))
    await asyncio.sleep(0)
    assert safe is not None
    assert not safe.done()
    assert (partition.log.log_end_offset, partition.high_watermark) == (1, 0)
    disk.gate.set()
    await safe
    assert partition.high_watermark == 1


async def test_one_sync_serves_all_that_arrived_before_it_began() -> None:
    disk = SlowDisk()
    partition = _partition(disk, LogConfig(sync_acks=True))
    first = partition.durable(partition.append(_batch(), ALL))
    await asyncio.sleep(0)
    later = [partition.durable(partition.append(_batch(), ALL)) for _ in range(50)]
    disk.gate.set()
    await asyncio.gather(*[safe for safe in (first, *later) if safe is not None])
    assert disk.syncs == 2
    assert partition.high_watermark == 51


async def test_without_the_sync_the_append_itself_moves_the_high_watermark() -> None:
    disk = SlowDisk()
    partition = _partition(disk, LogConfig(sync_acks=False))
    woken: list[bool] = []
    partition.readers.add(lambda: woken.append(True))
    assert partition.durable(partition.append(_batch(count=3), ALL)) is None
    assert partition.high_watermark == 3
    assert woken == [True]


async def test_a_finished_segment_is_synced_even_if_no_request_waits_for_it() -> None:
    disk = SlowDisk()
    disk.gate.set()
    partition = _partition(disk, LogConfig(sync_acks=False, segment_bytes=200))
    for _ in range(10):
        partition.append(_batch(b"x" * 50), ALL)
        await partition.synced()
    assert disk.syncs > 3
    assert partition.log.recovery_point > 5


async def test_flush_messages_makes_every_so_many_records_wait_for_the_disk() -> None:
    disk = SlowDisk()
    partition = _partition(disk, LogConfig(sync_acks=False, flush_messages=3))
    partition.log.mark_synced(0)
    assert partition.durable(partition.append(_batch(), 1)) is None
    assert partition.durable(partition.append(_batch(), 1)) is None
    safe = partition.durable(partition.append(_batch(), 1))
    assert safe is not None
    disk.gate.set()
    await safe
    assert partition.log.synced_offset == 3


async def test_a_failed_sync_fails_the_writers_and_all_later_ones_but_not_the_readers() -> None:
    disk = MemoryDisk()
    partition = _partition(disk, LogConfig(sync_acks=True))
    good = partition.durable(partition.append(_batch(b"good"), ALL))
    assert good is not None
    await good
    disk.fail_syncs = True
    lost = partition.durable(partition.append(_batch(b"lost"), ALL))
    assert lost is not None
    with pytest.raises(ApiError) as failure:
        await lost
    assert failure.value.code is ErrorCode.kafka_storage_error
    disk.fail_syncs = False
    with pytest.raises(ApiError):
        partition.append(_batch(), ALL)
    assert partition.high_watermark == 1
    assert b"good" in partition.log.read(0, 1000, partition.high_watermark)


async def test_too_few_in_sync_replicas_reject_only_acks_all() -> None:
    partition = _partition(MemoryDisk(), LogConfig(sync_acks=False, min_insync_replicas=2))
    with pytest.raises(ApiError) as rejection:
        partition.append(_batch(), ALL)
    assert rejection.value.code is ErrorCode.not_enough_replicas
    assert partition.append(_batch(), 1).base_offset == 0


@pytest.mark.parametrize(
    ("epoch", "code"), [(-1, None), (0, None), (1, ErrorCode.unknown_leader_epoch), (-2, ErrorCode.fenced_leader_epoch)]
)
async def test_leader_epochs_are_fenced(epoch: int, code: ErrorCode | None) -> None:
    partition = _partition(MemoryDisk(), LogConfig())
    if code is None:
        partition.check_epoch(epoch)
        return
    with pytest.raises(ApiError) as fence:
        partition.check_epoch(epoch)
    assert fence.value.code is code
