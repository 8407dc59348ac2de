"""A located range is read as it was, or not at all: another file that now has its path is never read instead."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from tests.storage.compaction.cleaning import COMPACTED, clean, job_for, keyed, run
from tests.storage.logs import NOW_MS, TOPIC_ID, batch, new_log, read_all

from catchment.ports.clock import ManualClock
from catchment.ports.disk import Disk, StaleFile
from catchment.ports.memory_disk import MemoryDisk
from catchment.ports.real_disk import RealDisk
from catchment.storage.compaction.plan import find_sources
from catchment.storage.compaction.rewrite import rewrite
from catchment.storage.log import Log
from catchment.storage.recovery import create_log
from catchment.storage.segments.lookup import FileRange


@pytest.fixture(params=["memory", "real", "real with few descriptors"])
def disk(request: pytest.FixtureRequest) -> Disk:
    if request.param == "memory":
        return MemoryDisk()
    return RealDisk() if request.param == "real" else RealDisk(max_open_files=1)


@pytest.fixture
def log(disk: Disk, tmp_path: Path) -> Log:
    """Ten batches of one key in several segments, which compaction makes shorter."""
    directory = f"{tmp_path}/flow-0"
    disk.make_directory(directory)
    log = create_log(disk, ManualClock(NOW_MS), directory, "flow", 0, TOPIC_ID, replace(COMPACTED, segment_bytes=400))
    for number in range(10):
        log.append_as_leader(keyed((b"same", b"%d" % number * 40), timestamp_ms=NOW_MS + number), 0)
    log.roll()
    return log


def _located(log: Log, offset: int = 0) -> FileRange:
    found = log.locate(offset, 400, log.log_end_offset)
    assert found is not None
    return found


def _bytes(found: FileRange) -> bytes:
    return found.file.read(found.position, found.size)


def test_a_range_survives_a_closed_descriptor(disk: Disk, log: Log) -> None:
    found = _located(log)
    before = _bytes(found)
    for offset in range(10):
        _bytes(_located(log, offset))
    assert _bytes(found) == before


def _compact(disk: Disk, log: Log) -> list[tuple[int, bytes | None]]:
    clean(disk, log)
    return [(9, b"9" * 40)]


def _retain(disk: Disk, log: Log) -> list[tuple[int, bytes | None]]:
    log.advance_log_start(log.log_end_offset)
    return []


def _truncate(disk: Disk, log: Log) -> list[tuple[int, bytes | None]]:
    log.truncate_to(1)
    log.append_as_leader(batch(b"another history" * 10), 1)
    return [(0, b"0" * 40), (1, b"another history" * 10)]


@pytest.mark.parametrize("change", [_compact, _retain, _truncate])
def test_a_range_in_a_file_that_has_left_the_log_is_located_again(
    disk: Disk, log: Log, change: Callable[[Disk, Log], list[tuple[int, bytes | None]]]
) -> None:
    found = _located(log)
    _bytes(found)
    expected = change(disk, log)
    assert found.file.is_closed
    with pytest.raises(StaleFile):
        _bytes(found)
    with pytest.raises(StaleFile):
        found.file.would_block(found.position, found.size)
    found.file.sync()
    assert read_all(log) == expected


def test_a_path_that_names_another_file_is_detected_on_reopening(tmp_path: Path) -> None:
    disk = RealDisk(max_open_files=1)
    file = disk.open_file(f"{tmp_path}/a")
    file.append([b"ours"])
    other = disk.open_file(f"{tmp_path}/b")
    other.append([b"theirs, and longer"])
    disk.rename(f"{tmp_path}/b", f"{tmp_path}/a")
    with pytest.raises(StaleFile):
        file.read(0, 4)
    assert file.is_closed


def test_a_closed_log_does_not_read_the_files_of_its_successor(disk: Disk, log: Log) -> None:
    log.close()
    with pytest.raises(StaleFile):
        _ = log.segments[0].file


def test_a_segment_that_was_cut_and_filled_again_is_not_swapped() -> None:
    disk = MemoryDisk()
    log = new_log(disk, COMPACTED)
    for number in range(10):
        log.append_as_leader(keyed((b"same", b"%d" % number), timestamp_ms=NOW_MS), 0)
    job = job_for(log)
    assert job is not None
    run(rewrite(disk, job))
    group = job.groups[0]
    assert find_sources(log, job, group)
    log.truncate_to(group[0].end_offset - 1)
    log.append_as_leader(keyed((b"same", b"x"), timestamp_ms=NOW_MS), 1)
    log.roll()
    assert log.segments[0].size == group[0].size
    assert find_sources(log, job, group) is None


def test_a_sync_during_a_truncation_covers_nothing_beyond_it() -> None:
    log = new_log(MemoryDisk())
    for number in range(10):
        log.append_as_leader(batch(b"%d" % number), 0)
    end_offset = log.log_end_offset
    for file in log.unsynced_group().files:
        file.sync()
    log.truncate_to(4)
    for number in range(20):
        log.append_as_leader(batch(b"other %d" % number), 1)
    log.mark_synced(end_offset)
    assert log.synced_offset == 4
    log.sync()
    assert log.synced_offset == log.log_end_offset == 24
