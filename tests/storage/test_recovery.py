"""Starting: nothing is read after a clean stop, everything unsafe after any other, and leftovers are removed."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.storage.logs import (
    DIRECTORY,
    SMALL,
    TOPIC_ID,
    batch,
    check_indexes,
    names,
    new_log,
    path_of,
    read_all,
    reopened,
    sync,
)

from catchment.ports.disk import File
from catchment.ports.memory_disk import MemoryDisk
from catchment.storage import layout
from catchment.storage.log import Log


def _filled(disk: MemoryDisk, count: int = 30) -> Log:
    log = new_log(disk)
    for _ in range(count):
        log.append_as_leader(batch(b"x" * 80, b"y", producer_id=1, epoch=0, sequence=2 * _), 4)
    return log


def _copy(disk: MemoryDisk, source: str, target: str) -> None:
    disk.open_file(target).append([disk.read_file(source)])


def test_a_clean_start_opens_neither_log_nor_index_files(monkeypatch: pytest.MonkeyPatch) -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    expected = read_all(log)
    log.close()
    opened: list[str] = []
    open_file = disk.open_file

    def noted(path: str) -> File:
        opened.append(path)
        return open_file(path)

    with monkeypatch.context() as patch:
        patch.setattr(disk, "open_file", noted)
        log = reopened(disk, is_clean=True, recovery_point=60)
        assert opened == []
    assert log.topic_id == TOPIC_ID
    assert log.synced_offset == log.log_end_offset == 60
    assert read_all(log) == expected
    log.append_as_leader(batch(b"more"), 4)
    check_indexes(log)


def test_a_clean_start_without_a_recovery_point_finds_the_end_from_the_index() -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    log.close()
    log = reopened(disk, is_clean=True, recovery_point=0)
    assert log.log_end_offset == 60


def test_a_close_without_changes_writes_nothing() -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    log.close()
    disk.read_only = True
    reopened(disk, is_clean=True, recovery_point=60).close()


def test_a_clean_stop_that_was_not_clean_is_recovered() -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    log.close(clean=False)
    active = path_of(log.segments.active.base_offset)
    disk.open_file(active).append([b"torn"])
    log = reopened(disk, is_clean=True, recovery_point=0)
    log.append_as_leader(batch(b"more"), 4)
    assert len(read_all(log)) == 61
    check_indexes(log)


@pytest.mark.parametrize("suffix", [layout.OFFSET_INDEX, layout.TIME_INDEX])
@pytest.mark.parametrize("is_clean", [True, False])
def test_a_missing_index_is_rebuilt(suffix: str, is_clean: bool) -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    log.close()
    disk.remove_file(path_of(0, suffix))
    log = reopened(disk, is_clean=is_clean, recovery_point=60)
    assert disk.exists(path_of(0, suffix))
    assert len(log.segments[0].offset_index) > 2
    check_indexes(log)


def test_preallocated_indexes_of_a_killed_kafka_are_rebuilt() -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    log.close()
    base_offset = log.segments.active.base_offset
    for suffix in (layout.OFFSET_INDEX, layout.TIME_INDEX):
        disk.open_file(path_of(base_offset, suffix)).append([bytes(4800)])
    log = reopened(disk, recovery_point=base_offset)
    assert len(read_all(log)) == 60
    check_indexes(log)
    log.close()
    assert len(disk.read_file(path_of(base_offset, layout.OFFSET_INDEX))) < 4800


def test_zeros_at_the_end_are_cut() -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    active = path_of(log.segments.active.base_offset)
    size = len(disk.read_file(active))
    disk.open_file(active).append([bytes(10_000)])
    log = reopened(disk)
    assert len(read_all(log)) == 60
    assert len(disk.read_file(active)) == size


def test_recovery_does_not_read_below_the_recovery_point() -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    sync(log)
    recovery_point = log.recovery_point
    file = disk.open_file(path_of(0))
    damaged = bytearray(file.read(0, file.size))
    damaged[100] ^= 1
    file.truncate(0)
    file.append([damaged])
    log = reopened(disk, recovery_point=recovery_point)
    assert log.log_end_offset == 60


def test_what_recovery_found_is_unsynced() -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    log = reopened(disk)
    assert log.synced_offset == 0
    assert log.recovery_point == 0
    sync(log)
    assert log.synced_offset == log.recovery_point == 60


def test_a_segment_after_a_lost_one_is_dropped() -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    first, second = log.segments[0], log.segments[1]
    disk.remove_file(path_of(second.base_offset))
    log = reopened(disk)
    assert log.log_end_offset == second.base_offset
    assert names(disk, ".log") == [layout.file_name(first.base_offset, ".log")]
    assert not names(disk, layout.DELETED)


def test_a_compacted_log_may_have_gaps_between_segments() -> None:
    disk = MemoryDisk()
    config = replace(SMALL, cleanup_policy=frozenset({"compact"}))
    log = _filled(disk)
    second = log.segments[1].base_offset
    disk.remove_file(path_of(second))
    log = reopened(disk, config)
    assert log.log_end_offset == 60
    assert [offset for offset, _ in read_all(log)][-1] == 59


def test_deleted_and_cleaned_files_are_removed() -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    log.close()
    _copy(disk, path_of(0), path_of(0) + layout.DELETED)
    _copy(disk, path_of(0), path_of(0) + layout.CLEANED)
    disk.open_file(path_of(9999, layout.TIME_INDEX)).append([bytes(12)])
    log = reopened(disk, is_clean=True, recovery_point=60)
    assert not names(disk, layout.DELETED)
    assert not names(disk, layout.CLEANED)
    assert not disk.exists(path_of(9999, layout.TIME_INDEX))
    assert len(read_all(log)) == 60


def _swapped(disk: MemoryDisk) -> tuple[Log, str]:
    """A log whose first two segments were cleaned into one, which is still a swap file."""
    log = _filled(disk)
    log.close()
    second = path_of(log.segments[1].base_offset)
    _copy(disk, path_of(0), path_of(0) + layout.SWAP)
    disk.open_file(path_of(0) + layout.SWAP).append([disk.read_file(second)])
    return log, second


def test_an_interrupted_swap_is_finished() -> None:
    disk = MemoryDisk()
    old, second = _swapped(disk)
    log = reopened(disk, is_clean=True, recovery_point=60)
    assert not disk.exists(second)
    assert not names(disk, layout.SWAP)
    assert len(log.segments) == len(old.segments) - 1
    assert [offset for offset, _ in read_all(log)] == list(range(60))
    check_indexes(log)


def test_a_swap_whose_set_is_not_complete_is_dropped() -> None:
    disk = MemoryDisk()
    old, second = _swapped(disk)
    disk.open_file(path_of(0, layout.OFFSET_INDEX) + layout.CLEANED)
    log = reopened(disk, is_clean=True, recovery_point=60)
    assert disk.exists(second)
    assert not names(disk, layout.SWAP)
    assert len(log.segments) == len(old.segments)


def test_a_log_start_beyond_the_end_drops_everything_and_begins_there() -> None:
    disk = MemoryDisk()
    _filled(disk)
    log = reopened(disk, log_start_offset=100)
    assert (log.log_start_offset, log.log_end_offset) == (100, 100)
    assert names(disk, ".log") == [layout.file_name(100, ".log")]
    assert log.append_as_leader(batch(b"x"), 0).base_offset == 100


def test_a_log_start_inside_the_log_hides_what_is_below() -> None:
    disk = MemoryDisk()
    _filled(disk)
    log = reopened(disk, log_start_offset=33)
    assert log.log_start_offset == 33
    assert [offset for offset, _ in read_all(log)] == list(range(33, 60))


def test_an_empty_directory_becomes_a_log_that_begins_at_its_start() -> None:
    disk = MemoryDisk()
    disk.make_directory(DIRECTORY)
    log = reopened(disk, log_start_offset=7)
    assert (log.log_start_offset, log.log_end_offset) == (7, 7)


def test_snapshots_that_belong_to_no_segment_are_removed() -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    log.close()
    _copy(disk, path_of(60, layout.SNAPSHOT), path_of(17, layout.SNAPSHOT))
    _copy(disk, path_of(60, layout.SNAPSHOT), path_of(61, layout.SNAPSHOT))
    log = reopened(disk, is_clean=True, recovery_point=60)
    kept = [segment.base_offset for segment in log.segments][1:]
    assert names(disk, layout.SNAPSHOT) == [layout.file_name(offset, layout.SNAPSHOT) for offset in [*kept, 60]]


def test_the_topic_id_is_none_where_the_file_was_torn() -> None:
    disk = MemoryDisk()
    log = _filled(disk)
    log.close()
    disk.open_file(f"{DIRECTORY}/{layout.PARTITION_METADATA}").truncate(13)
    log = reopened(disk, is_clean=True, recovery_point=60)
    assert log.topic_id is None
    log.assign_topic_id(TOPIC_ID)
    log.close()
    assert reopened(disk, is_clean=True, recovery_point=60).topic_id == TOPIC_ID
