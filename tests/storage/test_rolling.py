"""When a log begins a new segment, and what it leaves of the old one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.storage.logs import NOW_MS, batch, check_indexes, names, new_log, read_all

from catchment.ports.clock import ManualClock
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.records import Record, encode_batch
from catchment.storage.config import LogConfig
from catchment.storage.segments.segment_list import LogSegments


def _bases(segments: LogSegments) -> list[int]:
    return [segment.base_offset for segment in segments]


def test_a_segment_ends_before_the_batch_that_would_pass_segment_bytes() -> None:
    size = batch(b"x").nbytes
    log = new_log(MemoryDisk(), LogConfig(segment_bytes=3 * size))
    for _ in range(7):
        log.append_as_leader(batch(b"x"), 0)
    assert _bases(log.segments) == [0, 3, 6]


def test_a_segment_ends_when_its_records_span_segment_ms() -> None:
    log = new_log(MemoryDisk(), LogConfig(segment_ms=1000))
    for delta in (0, 1000, 1001, 1500):
        log.append_as_leader(batch(b"x", timestamp_ms=NOW_MS + delta), 0)
    assert _bases(log.segments) == [0, 2]


def test_records_without_timestamp_roll_by_the_brokers_clock() -> None:
    clock = ManualClock(NOW_MS)
    log = new_log(MemoryDisk(), LogConfig(segment_ms=1000), clock)
    log.append_as_leader(batch(b"x", timestamp_ms=-1), 0)
    clock.advance(1001)
    log.append_as_leader(batch(b"x", timestamp_ms=-1), 0)
    assert _bases(log.segments) == [0, 1]


def test_jitter_advances_a_roll_by_less_than_its_bound() -> None:
    early = new_log(MemoryDisk(), LogConfig(segment_ms=1000, segment_jitter_ms=400))
    for delta in range(0, 1002, 50):
        early.append_as_leader(batch(b"x", timestamp_ms=NOW_MS + delta), 0)
    first_of_second = early.segments[1].first_timestamp_ms - NOW_MS
    assert 600 < first_of_second <= 1000


def test_a_full_index_ends_a_segment() -> None:
    config = LogConfig(index_interval_bytes=0, segment_index_bytes=48)
    log = new_log(MemoryDisk(), config)
    for number in range(20):
        log.append_as_leader(batch(b"x", timestamp_ms=NOW_MS + number), 0)
    assert len(log.segments) > 3
    assert all(len(segment.offset_index) <= 6 for segment in log.segments)
    assert all(len(segment.time_index) <= 4 for segment in log.segments)
    check_indexes(log)


def test_an_offset_too_far_from_the_base_begins_a_segment() -> None:
    log = new_log(MemoryDisk(), replace(LogConfig(), cleanup_policy=frozenset({"compact"})))
    far = (1 << 31) - 1
    for offset in (0, far, far + 1):
        log.append_as_follower(memoryview(encode_batch([Record(b"k", b"v")], base_offset=offset)))
    assert _bases(log.segments) == [0, far + 1]
    assert [offset for offset, _ in read_all(log)] == [0, far, far + 1]


def test_a_roll_of_an_empty_segment_does_nothing() -> None:
    disk = MemoryDisk()
    log = new_log(disk)
    log.roll()
    log.append_as_leader(batch(b"x"), 0)
    log.roll()
    log.roll()
    assert _bases(log.segments) == [0, 1]


def test_a_roll_leaves_indexes_and_a_snapshot_for_the_next_sync() -> None:
    disk = MemoryDisk()
    log = new_log(disk)
    log.append_as_leader(batch(b"x"), 0)
    log.sync()
    assert log.recovery_point == 1
    log.roll()
    assert names(disk)[:5] == [
        f"{0:020d}.index",
        f"{0:020d}.log",
        f"{0:020d}.timeindex",
        f"{1:020d}.log",
        f"{1:020d}.snapshot",
    ]
    assert log.recovery_point == 0
    assert {file.path.rpartition(".")[2] for file in log.unsynced_group().files} == {
        "log",
        "index",
        "timeindex",
        "snapshot",
    }
    log.mark_synced(1)
    assert log.recovery_point == 1
    assert log.unsynced_group().files == []


def test_files_changed_during_a_sync_are_unsynced_after_it() -> None:
    log = new_log(MemoryDisk())
    log.append_as_leader(batch(b"x"), 0)
    end_offset = log.log_end_offset
    handed_out = log.unsynced_group()
    log.append_as_leader(batch(b"y"), 0)
    log.roll()
    assert handed_out.files
    log.mark_synced(end_offset)
    assert log.synced_offset == 1
    assert log.recovery_point == 0
    assert any(file.path.endswith(".timeindex") for file in log.unsynced_group().files)


@pytest.mark.parametrize(("setting", "count"), [("flush_messages", 3), ("flush_ms", 1)])
def test_flush_settings_ask_for_a_sync(setting: str, count: int) -> None:
    clock = ManualClock(NOW_MS)
    values = {"flush.messages": 3} if setting == "flush_messages" else {"flush.ms": 500}
    log = new_log(MemoryDisk(), LogConfig.from_settings(values), clock)
    for _ in range(count):
        assert not log.needs_flush(clock.now_ms())
        log.append_as_leader(batch(b"x"), 0)
    clock.advance(500)
    assert log.needs_flush(clock.now_ms())
    log.unsynced_group()
    log.mark_synced(log.log_end_offset)
    assert not log.needs_flush(clock.now_ms())
