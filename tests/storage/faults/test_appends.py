"""An error at any call of an append leaves a log that works or is offline, never bytes that are not counted."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest
from tests.storage import logs
from tests.storage.logs import NOW_MS, batch, check_indexes, marker, new_log, read_all, reopened, sync

from catchment.ports.memory_disk import MemoryDisk, MemoryFile
from catchment.ports.real_disk import RealDisk
from catchment.protocol.errors import ApiError
from catchment.storage.log import Log


class DiskOutOfDescriptors(MemoryDisk):
    """Opens no file while it is enabled, like a process that has reached its limit."""

    has_none_left = False

    def open_file(self, path: str) -> MemoryFile:
        if self.has_none_left:
            raise OSError(errno.EMFILE, "too many open files", path)
        return super().open_file(path)


def _after_a_clean_restart(disk: MemoryDisk) -> Log:
    """A log whose indexes are not loaded, and whose next batch needs an index entry."""
    log = new_log(disk)
    for number in range(5):
        log.append_as_leader(batch(b"%d" % number * 60, timestamp_ms=NOW_MS + number), 0)
    log.close()
    log = reopened(disk, is_clean=True, recovery_point=5)
    assert log.segments.active.file.size
    return log


def test_no_offset_is_used_twice_when_the_index_cannot_be_opened() -> None:
    disk = DiskOutOfDescriptors()
    log = _after_a_clean_restart(disk)
    size = log.segments.active.file.size
    disk.has_none_left = True
    for _ in range(3):
        with pytest.raises(ApiError):
            log.append_as_leader(batch(b"rejected" * 50, timestamp_ms=NOW_MS + 10), 0)
        assert log.segments.active.file.size == size
    disk.has_none_left = False
    acknowledged = log.append_as_leader(batch(b"kept", timestamp_ms=NOW_MS + 20), 0)
    sync(log)
    assert acknowledged.base_offset == 5
    check_indexes(log)
    after = reopened(disk, recovery_point=log.recovery_point)
    assert read_all(after) == read_all(log)
    assert read_all(after)[-1] == (5, b"kept")


def test_a_follower_counts_all_that_it_wrote() -> None:
    disk = DiskOutOfDescriptors()
    log = _after_a_clean_restart(disk)
    source = new_log(MemoryDisk())
    for number in range(8):
        source.append_as_leader(batch(b"%d" % number), 0)
    size = log.segments.active.file.size
    disk.has_none_left = True
    with pytest.raises(ApiError):
        log.append_as_follower(memoryview(source.read(5, 10_000, 8)))
    assert (log.log_end_offset, log.segments.active.file.size) == (5, size)


def _with_an_open_transaction(disk: MemoryDisk) -> Log:
    log = new_log(disk)
    log.append_as_leader(batch(b"open", producer_id=1, epoch=0, sequence=0, is_transactional=True), 0)
    return log


def test_a_follower_is_not_left_with_a_marker_whose_abort_is_not_indexed() -> None:
    leader = _with_an_open_transaction(MemoryDisk())
    leader.append_as_leader(batch(b"other"), 0)
    leader.append_as_leader(marker(1, is_commit=False), 0, is_from_client=False)
    leader.append_as_leader(batch(b"after"), 0)
    disk = DiskOutOfDescriptors()
    follower = new_log(disk)
    follower.append_as_follower(memoryview(leader.read(0, 10_000, 1)))
    disk.has_none_left = True
    rest = memoryview(leader.read(1, 10_000, 4))
    with pytest.raises(ApiError):
        follower.append_as_follower(rest)
    assert (follower.log_end_offset, follower.is_offline) == (2, False)
    disk.has_none_left = False
    follower.append_as_follower(memoryview(leader.read(2, 10_000, 4)))
    assert follower.log_end_offset == 4
    assert follower.aborted_transactions(0, 4) == leader.aborted_transactions(0, 4) == [(1, 0)]
    assert read_all(follower) == read_all(leader)


class _Refusing:
    """Replaces a system call and fails while it is enabled, after writing `kept` bytes if it writes."""

    def __init__(self, real: object, kept: int | None = None) -> None:
        self.real = real
        self.is_on = False
        self.kept = kept

    def __call__(self, *arguments: object) -> object:
        assert callable(self.real)
        if not self.is_on:
            return self.real(*arguments)
        if self.kept is None:
            raise OSError(errno.EIO, "input/output error")
        descriptor, pieces, position = arguments
        assert isinstance(pieces, tuple | list)
        if self.kept == 0:
            raise OSError(errno.ENOSPC, "no space left")
        whole = b"".join(bytes(piece) for piece in pieces)
        kept, self.kept = self.kept, 0
        return self.real(descriptor, [whole[:kept]], position)


def test_a_partial_batch_that_cannot_be_cut_off_takes_the_log_offline(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "ROOT", str(tmp_path))
    monkeypatch.setattr(logs, "DIRECTORY", str(tmp_path / "flow-0"))
    disk = RealDisk()
    log = logs.new_log(disk)
    log.append_as_leader(batch(b"kept"), 0)
    sync(log)
    writes, cuts = _Refusing(os.pwritev, kept=40), _Refusing(os.ftruncate)
    monkeypatch.setattr(os, "pwritev", writes)
    monkeypatch.setattr(os, "ftruncate", cuts)
    writes.is_on = cuts.is_on = True
    with pytest.raises(ApiError):
        log.append_as_leader(batch(b"torn" * 100), 0)
    writes.is_on = cuts.is_on = False
    assert log.is_offline
    with pytest.raises(ApiError):
        log.append_as_leader(batch(b"later"), 0)
    log.close()
    log = logs.reopened(disk, recovery_point=1)
    log.append_as_leader(batch(b"next"), 0)
    assert read_all(log) == [(0, b"kept"), (1, b"next")]
