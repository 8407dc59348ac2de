"""A disk that is full, read-only or failing: writes are rejected, reads work, and writes resume once there is space."""

from __future__ import annotations

from random import Random

import pytest
from kio.schema.errors import ErrorCode
from tests.storage.logs import batch, check_indexes, new_log, read_all, reopened, sync

from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.errors import ApiError
from catchment.storage.log import Log


def _assert_rejected(log: Log, data: memoryview) -> None:
    end_offset, size = log.log_end_offset, log.size_bytes
    with pytest.raises(ApiError) as rejected:
        log.append_as_leader(data, 0)
    assert rejected.value.code is ErrorCode.kafka_storage_error
    assert (log.log_end_offset, log.size_bytes) == (end_offset, size)


def test_a_full_disk_rejects_writes_until_there_is_space() -> None:
    disk = MemoryDisk()
    log = new_log(disk)
    log.append_as_leader(batch(b"before", producer_id=1, epoch=0, sequence=0), 0)
    disk.fill(10)
    during = batch(b"during", producer_id=1, epoch=0, sequence=1)
    _assert_rejected(log, during)
    _assert_rejected(log, during)
    assert read_all(log) == [(0, b"before")]
    disk.make_room()
    info = log.append_as_leader(during, 0)
    assert (info.base_offset, info.is_duplicate) == (1, False)
    assert read_all(log) == [(0, b"before"), (1, b"during")]


@pytest.mark.parametrize("seed", range(40))
def test_after_a_disk_fills_up_at_any_byte_the_log_continues(seed: int) -> None:
    random = Random(seed)
    disk = MemoryDisk()
    log = new_log(disk)
    expected: list[tuple[int, bytes | None]] = []
    for number in range(80):
        if random.random() < 0.2:
            disk.fill(random.randrange(400))
        if random.random() < 0.2:
            disk.make_room()
        value = random.randbytes(random.randrange(200))
        try:
            info = log.append_as_leader(batch(value, producer_id=1, epoch=0, sequence=len(expected)), number)
        except ApiError as error:
            if error.code is not ErrorCode.kafka_storage_error:
                raise
            continue
        expected.append((info.base_offset, value))
    assert read_all(log) == expected
    check_indexes(log)
    disk.make_room()
    log.append_as_leader(batch(b"room", producer_id=1, epoch=0, sequence=len(expected)), 99)
    log = reopened(disk)
    assert read_all(log) == [*expected, (len(expected), b"room")]


@pytest.mark.parametrize("fault", ["read_only", "fail_writes"])
def test_a_disk_that_rejects_writes_still_serves_reads(fault: str) -> None:
    disk = MemoryDisk()
    log = new_log(disk)
    for _ in range(30):
        log.append_as_leader(batch(b"x" * 100), 0)
    setattr(disk, fault, True)
    for _ in range(3):
        _assert_rejected(log, batch(b"x" * 1000))
    assert len(read_all(log)) == 30
    setattr(disk, fault, False)
    log.append_as_leader(batch(b"x" * 1000), 0)
    assert len(read_all(log)) == 31


def test_a_failed_sync_is_final_for_writes_and_not_for_reads() -> None:
    disk = MemoryDisk()
    log = new_log(disk)
    log.append_as_leader(batch(b"safe"), 0)
    sync(log)
    log.append_as_leader(batch(b"unsafe"), 0)
    disk.fail_syncs = True
    with pytest.raises(OSError, match=r".") as failure:
        sync(log)
    log.fail(failure.value)
    disk.fail_syncs = False
    assert log.is_offline
    _assert_rejected(log, batch(b"later"))
    with pytest.raises(ApiError):
        log.append_as_follower(batch(b"later"))
    assert log.synced_offset == 1
    assert read_all(log, upper_offset=log.synced_offset) == [(0, b"safe")]


def test_a_clean_close_that_cannot_write_raises() -> None:
    disk = MemoryDisk()
    log = new_log(disk)
    log.append_as_leader(batch(b"x"), 0)
    disk.fill(0)
    with pytest.raises(OSError, match=r"."):
        log.close()
    assert read_all(reopened(disk)) == [(0, b"x")]
