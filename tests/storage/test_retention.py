"""What a log deletes by time, by size, by count and by request, and when its space is freed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.storage.logs import NOW_MS, batch, names, new_log, read_all, reopened

from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.errors import ApiError
from catchment.storage import layout
from catchment.storage.config import LogConfig
from catchment.storage.log import Log
from catchment.storage.policies import retained_from

_SIZE = batch(b"x").nbytes
_CONFIG = LogConfig(segment_bytes=10 * _SIZE, retention_ms=-1, file_delete_delay_ms=500)


def _filled(config: LogConfig, disk: MemoryDisk | None = None, count: int = 45) -> Log:
    """Five segments, a record each millisecond."""
    log = new_log(disk or MemoryDisk(), config)
    for number in range(count):
        log.append_as_leader(batch(b"x", timestamp_ms=NOW_MS + number), number // 10)
    return log


def test_segments_are_deleted_when_their_latest_record_is_too_old() -> None:
    log = _filled(replace(_CONFIG, retention_ms=100))
    assert log.apply_retention(NOW_MS + 119, 45) == 1
    assert log.log_start_offset == 10
    assert log.apply_retention(NOW_MS + 119, 45) == 0


def test_an_active_segment_that_is_too_old_rolls_and_is_deleted() -> None:
    disk = MemoryDisk()
    log = _filled(replace(_CONFIG, retention_ms=100), disk)
    assert log.apply_retention(NOW_MS + 10_000, 45) == 5
    assert (log.log_start_offset, log.log_end_offset) == (45, 45)
    assert log.size_bytes == 0
    assert log.append_as_leader(batch(b"x"), 9).base_offset == 45


def test_segments_are_deleted_while_the_rest_has_the_size_to_keep() -> None:
    log = _filled(replace(_CONFIG, retention_bytes=30 * _SIZE))
    assert log.apply_retention(NOW_MS, 45) == 1
    assert log.size_bytes == 35 * _SIZE


def test_retention_by_count_is_exact() -> None:
    log = _filled(replace(_CONFIG, retention_messages=17))
    log.apply_retention(NOW_MS, 45)
    assert log.log_start_offset == 28
    assert log.segments.first_offset == 20
    assert len(read_all(log)) == 17


@pytest.mark.parametrize(
    "config",
    [replace(_CONFIG, retention_ms=0), replace(_CONFIG, retention_bytes=0), replace(_CONFIG, retention_messages=0)],
    ids=["time", "size", "count"],
)
def test_nothing_above_the_high_watermark_is_deleted(config: LogConfig) -> None:
    log = _filled(config)
    log.apply_retention(NOW_MS + 10_000_000, 25)
    assert log.log_start_offset <= 25
    assert log.segments.first_offset == 20
    assert [offset for offset, _ in read_all(log)][-20:] == list(range(25, 45))


def test_a_compacted_log_keeps_its_segments_except_below_its_start() -> None:
    config = replace(_CONFIG, retention_ms=0, retention_bytes=0, cleanup_policy=frozenset({"compact"}))
    log = _filled(config)
    assert log.apply_retention(NOW_MS + 10_000, 45) == 0
    log.advance_log_start(31)
    assert log.segments.first_offset == 30


def test_deleting_records_hides_them_at_once_and_frees_whole_segments() -> None:
    log = _filled(_CONFIG)
    log.advance_log_start(25)
    assert log.log_start_offset == 25
    assert log.segments.first_offset == 20
    assert log.leader_epochs.entries[0] == (2, 25)
    log.advance_log_start(7)
    assert log.log_start_offset == 25


def test_records_beyond_the_end_cannot_be_deleted() -> None:
    log = _filled(_CONFIG)
    with pytest.raises(ApiError) as rejected:
        log.advance_log_start(46)
    assert rejected.value.code is ErrorCode.offset_out_of_range


def test_a_log_emptied_by_request_frees_its_active_segment_too() -> None:
    log = _filled(_CONFIG)
    log.advance_log_start(45)
    log.apply_retention(NOW_MS, 45)
    assert log.size_bytes == 0
    assert log.log_start_offset == 45


def test_space_is_freed_after_the_delay() -> None:
    disk = MemoryDisk()
    log = _filled(_CONFIG, disk)
    log.advance_log_start(20)
    assert len(names(disk, layout.LOG + layout.DELETED)) == 2
    assert log.remove_deleted(NOW_MS + 499) == 0
    assert log.remove_deleted(NOW_MS + 500) == 6
    assert names(disk, layout.DELETED) == []


def test_snapshots_are_deleted_with_their_segments() -> None:
    disk = MemoryDisk()
    log = _filled(_CONFIG, disk)
    log.advance_log_start(30)
    assert names(disk, layout.SNAPSHOT) == [layout.file_name(offset, layout.SNAPSHOT) for offset in (30, 40)]


def test_what_was_removed_stays_removed_after_a_restart() -> None:
    disk = MemoryDisk()
    log = _filled(_CONFIG, disk)
    log.advance_log_start(25)
    log = reopened(disk, _CONFIG, log_start_offset=25)
    assert [offset for offset, _ in read_all(log)] == list(range(25, 45))
    assert names(disk, layout.DELETED) == []


@pytest.mark.parametrize(
    ("limits", "high_watermark", "expected"),
    [
        ({}, 45, 0),
        ({"retention_ms": 100}, 45, 20),
        ({"retention_ms": 100, "retention_bytes": 20 * _SIZE}, 45, 20),
        ({"retention_ms": 100, "retention_bytes": 15 * _SIZE}, 45, 30),
        ({"retention_bytes": 0}, 45, 45),
        ({"retention_bytes": 0}, 44, 40),
        ({"retention_messages": 12}, 45, 33),
        ({"retention_messages": 12, "retention_bytes": 5 * _SIZE}, 45, 40),
        ({"retention_ms": 0, "cleanup_policy": frozenset({"compact"})}, 45, 0),
    ],
)
def test_the_limits_combine_to_one_log_start_and_the_decision_changes_nothing(
    limits: dict[str, Any], high_watermark: int, expected: int
) -> None:
    log = _filled(replace(_CONFIG, **limits))
    now_ms = NOW_MS + 125
    before = [(segment.base_offset, segment.size) for segment in log.segments]
    assert retained_from(log.segments, log.config, 0, 45, high_watermark, now_ms) == expected
    assert (log.log_start_offset, [(segment.base_offset, segment.size) for segment in log.segments]) == (0, before)
    log.apply_retention(now_ms, high_watermark)
    assert log.log_start_offset == expected
