"""A power loss at any moment of a cleaning, or of the start after it, leaves old segments or new ones, no mix and no loss."""

from __future__ import annotations

import errno
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

import pytest
from tests.storage.compaction.cleaning import COMPACTED, Kept, data_records, job_for, keyed, run, swap_all
from tests.storage.logs import NOW_MS, check_indexes, marker, names, new_log, reopened, sync

from catchment.ports.clock import ManualClock
from catchment.ports.memory_disk import MemoryDisk
from catchment.storage.compaction.rewrite import discard, rewrite
from catchment.storage.log import Log

CONFIG = replace(COMPACTED, segment_bytes=500)


class WatchedDisk(MemoryDisk):
    """Calls a function before and after every change of a name."""

    def __init__(self) -> None:
        super().__init__()
        self.watch: Callable[[], None] = lambda: None

    def rename(self, source: str, target: str) -> None:
        self.watch()
        super().rename(source, target)
        self.watch()

    def remove_file(self, path: str) -> None:
        self.watch()
        super().remove_file(path)
        self.watch()


class FailingDisk(MemoryDisk):
    """Fails the renames with the given numbers."""

    def __init__(self) -> None:
        super().__init__()
        self.rejected: set[int] = set()
        self.renames = 0

    def rename(self, source: str, target: str) -> None:
        self.renames += 1
        if self.renames in self.rejected:
            raise OSError(errno.EIO, "rejected", source)
        super().rename(source, target)


def fill(disk: MemoryDisk, random: Random) -> Log:
    """A log of several segments with superseded keys, tombstones and an aborted transaction, all of it on the device."""
    log = new_log(disk, CONFIG, ManualClock(NOW_MS))
    for number in range(30):
        pairs = [(b"%d" % random.randrange(12), random.choice([None, b"%d" % number, bytes(40)])) for _ in range(2)]
        log.append_as_leader(keyed(*pairs, timestamp_ms=NOW_MS + number), 0)
    log.append_as_leader(
        keyed((b"1", b"aborted"), timestamp_ms=NOW_MS, producer_id=7, sequence=0, is_transactional=True), 0
    )
    log.append_as_leader(marker(7, is_commit=False), 0, is_from_client=False)
    log.roll()
    log.append_as_leader(keyed((b"end", b"1"), timestamp_ms=NOW_MS), 0)
    sync(log)
    return log


def committed_values(records: list[Kept]) -> dict[bytes | None, bytes | None]:
    return {record.key: record.value for record in records if record.value != b"aborted"}


def note_crash(crashes: list[MemoryDisk], disk: MemoryDisk, random: Random) -> None:
    crashes.append(disk.crash(random))


def check_recovered(disk: MemoryDisk, recovery_point: int, allowed: list[list[Kept]], end_offset: int) -> None:
    log = reopened(disk, CONFIG, recovery_point=recovery_point)
    assert data_records(log) in allowed
    assert log.log_end_offset == end_offset
    assert log.aborted_transactions(0, end_offset) == [(7, 60)]
    check_indexes(log)
    assert names(disk, ".swap") == names(disk, ".cleaned") == names(disk, ".deleted") == []


@pytest.mark.parametrize("seed", range(3))
def test_a_power_loss_during_a_cleaning_or_the_recovery_from_it_leaves_old_or_new_segments(seed: int) -> None:
    random = Random(seed)
    disk = WatchedDisk()
    log = fill(disk, random)
    states = [data_records(log)]
    losses: list[tuple[MemoryDisk, int]] = []
    disk.watch = lambda: losses.append((disk.crash(random), log.recovery_point))
    job = job_for(log)
    assert job is not None
    assert len(job.groups) > 1
    result = run(rewrite(disk, job))
    states += [data_records(log) for _ in swap_all(log, job, result)]
    disk.watch = lambda: None
    assert states[0] != states[-1]
    for lost, recovery_point in losses:
        check_recovered(lost.crash(random), recovery_point, states, log.log_end_offset)
        again: list[MemoryDisk] = []
        recovering = WatchedDisk()
        recovering._root = lost._root
        recovering.watch = partial(note_crash, again, recovering, random)
        reopened(recovering, CONFIG, recovery_point=recovery_point)
        for twice_lost in again[:: max(1, len(again) // 2)]:
            check_recovered(twice_lost, recovery_point, states, log.log_end_offset)


def test_a_swap_that_fails_leaves_the_log_unchanged() -> None:
    for rejected in range(1, 40):
        disk = FailingDisk()
        log = fill(disk, Random(1))
        before = data_records(log)
        job = job_for(log)
        assert job is not None
        result = run(rewrite(disk, job))
        disk.renames, disk.rejected = 0, {rejected}
        try:
            next(swap_all(log, job, result))
        except OSError:
            assert data_records(log) == before
            assert not log.is_offline
            discard(disk, job)
            assert names(disk, ".swap") == names(disk, ".cleaned") == names(disk, ".deleted") == []
        else:
            assert rejected > 10
            return
    pytest.fail("every swap was rejected")


def test_a_swap_that_can_be_neither_finished_nor_undone_takes_the_log_offline_until_a_start_finishes_it() -> None:
    disk = FailingDisk()
    log = fill(disk, Random(1))
    before = data_records(log)
    job = job_for(log)
    assert job is not None
    result = run(rewrite(disk, job))
    disk.renames, disk.rejected = 0, {6, 7}
    with pytest.raises(OSError, match="rejected"):
        next(swap_all(log, job, result))
    assert log.is_offline
    discard(disk, job)
    again = reopened(disk, CONFIG, recovery_point=log.recovery_point)
    assert again.log_end_offset == log.log_end_offset
    assert committed_values(data_records(again)) == committed_values(before)
    assert len(data_records(again)) < len(before)
