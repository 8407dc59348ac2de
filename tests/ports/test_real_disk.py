"""The real disk: bounded descriptors, short writes, locks against other processes."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.waiting import wait_until
from typing_extensions import Buffer

from catchment.ports.real_disk import RealDisk

_write = os.pwritev


def test_descriptors_stay_below_the_bound_while_every_file_stays_usable(tmp_path: Path) -> None:
    disk = RealDisk(max_open_files=4)
    files = [disk.open_file(str(tmp_path / str(number))) for number in range(20)]
    assert disk.open_files == 4
    for number, file in enumerate(files):
        file.append([str(number).encode()])
    assert [file.read(0, 10) for file in files] == [str(number).encode() for number in range(20)]
    assert disk.open_files == 4
    asyncio.run(disk.sync_files(files))
    for file in files:
        file.close()
    assert disk.open_files == 0


def test_the_least_recently_used_file_loses_its_descriptor(tmp_path: Path) -> None:
    disk = RealDisk(max_open_files=2)
    kept = disk.open_file(str(tmp_path / "kept"))
    descriptor = kept.descriptor()
    for number in range(5):
        disk.open_file(str(tmp_path / str(number)))
        kept.append([b"x"])
    assert kept.descriptor() == descriptor


def test_a_sync_leaves_no_descriptor_behind(tmp_path: Path) -> None:
    disk = RealDisk()
    files = [disk.open_file(str(tmp_path / str(number))) for number in range(5)]
    rounds = 100
    asyncio.run(disk.sync_files(files))
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(rounds):
        asyncio.run(disk.sync_files(files))
    # Clients of earlier tests may open and close some meanwhile.
    assert len(os.listdir("/proc/self/fd")) < before + rounds // 2


def test_a_short_write_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def write_three_bytes(descriptor: int, buffers: Sequence[Buffer], offset: int) -> int:
        return _write(descriptor, [b"".join(buffers)[:3]], offset)

    file = RealDisk().open_file(str(tmp_path / "a"))
    monkeypatch.setattr(os, "pwritev", write_three_bytes)
    file.append([b"ab", b"", b"cdefgh", b"ij"])
    assert file.size == 10
    assert file.read(0, 10) == b"abcdefghij"


def test_a_failed_append_leaves_the_file_unchanged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    calls = iter([3, -1])

    def write_and_then_fail(descriptor: int, buffers: Sequence[Buffer], offset: int) -> int:
        count = next(calls)
        if count < 0:
            raise OSError(errno.ENOSPC, "no space")
        return _write(descriptor, [b"".join(buffers)[:count]], offset)

    path = tmp_path / "a"
    file = RealDisk().open_file(str(path))
    file.append([b"before"])
    with monkeypatch.context() as patch:
        patch.setattr(os, "pwritev", write_and_then_fail)
        with pytest.raises(OSError, match="no space"):
            file.append([b"lost", b"lost"])
    assert file.size == 6
    assert path.read_bytes() == b"before"
    file.append([b"after"])
    assert path.read_bytes() == b"beforeafter"


def test_a_disk_that_accepts_no_bytes_is_an_error_and_no_endless_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = RealDisk().open_file(str(tmp_path / "a"))
    monkeypatch.setattr(os, "pwritev", lambda descriptor, buffers, offset: 0)
    with pytest.raises(OSError, match="accepted no bytes"):
        file.append([b"abc"])


def test_a_replacement_that_fails_leaves_the_old_content_and_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    disk = RealDisk()
    disk.replace_file(str(tmp_path / "checkpoint"), b"old")
    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(OSError, match="no space"):
        disk.replace_file(str(tmp_path / "checkpoint"), b"new")
    assert [path.name for path in tmp_path.iterdir()] == ["checkpoint"]
    assert (tmp_path / "checkpoint").read_bytes() == b"old"


def test_a_locked_directory_cannot_be_locked_by_another_process(tmp_path: Path) -> None:
    script = "import sys; from catchment.ports.real_disk import RealDisk; RealDisk().lock_directory(sys.argv[1])"
    command = [sys.executable, "-c", script, str(tmp_path)]
    lock = RealDisk().lock_directory(str(tmp_path))
    refused = subprocess.run(command, check=False, capture_output=True, text=True)
    assert "BlockingIOError" in refused.stderr
    lock.release()
    assert subprocess.run(command, check=False).returncode == 0


async def test_a_later_read_works_even_if_the_file_is_removed_meanwhile(tmp_path: Path) -> None:
    disk = RealDisk()
    file = disk.open_file(str(tmp_path / "log"))
    file.append([b"0123456789" * 1000])
    reading = asyncio.ensure_future(disk.read_later(file, 5, 9000))
    await asyncio.sleep(0)
    file.close()
    disk.remove_file(file.path)
    assert await reading == (b"0123456789" * 1000)[5:9005]


def test_reading_what_was_just_written_does_not_block(tmp_path: Path) -> None:
    file = RealDisk().open_file(str(tmp_path / "log"))
    file.append([b"x" * 100_000])
    assert not file.would_block(0, 100_000)
    assert not file.would_block(0, 0)


def test_a_large_file_is_unlinked_at_once_and_freed_soon(tmp_path: Path) -> None:
    disk = RealDisk()
    file = disk.open_file(str(tmp_path / "log"))
    file.append([b"x" * (2 << 20)])
    file.close()
    disk.remove_file(file.path)
    assert not disk.exists(file.path)
    wait_until(lambda: not _is_open(file.path), "it stays open")


def _is_open(path: str) -> bool:
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            if os.readlink(f"/proc/self/fd/{name}").startswith(path):
                return True
    return False
