"""Syncs by the kernel: every target has its own result, and a thread syncs what the kernel does not accept."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
from pathlib import Path

import pytest

from catchment.ports import kernel_syncs
from catchment.ports.disk import Replacement, StaleFile, SyncGroup
from catchment.ports.kernel_syncs import KernelSyncs, Target
from catchment.ports.real_disk import RealDisk


@pytest.fixture
async def kernel() -> KernelSyncs:
    try:
        return KernelSyncs(asyncio.get_running_loop())
    except OSError as error:
        pytest.skip(f"this kernel does not sync by itself: {error}")


async def test_files_and_directories_are_synced_though_their_descriptors_are_closed_meanwhile(
    kernel: KernelSyncs, tmp_path: Path
) -> None:
    targets = [Target(os.open(tmp_path / str(number), os.O_RDWR | os.O_CREAT)) for number in range(30)]
    targets.append(Target(os.open(tmp_path, os.O_RDONLY | os.O_DIRECTORY), is_directory=True))
    for target in targets[:-1]:
        os.write(target.descriptor, b"x" * 5000)
    submitted = kernel.submit(targets)
    for target in targets:
        os.close(target.descriptor)
    assert submitted is not None
    assert submitted.taken == 31
    assert await submitted.outcomes == [None] * 31
    kernel.close()


async def test_the_kernel_accepts_the_targets_before_the_first_that_it_rejects(
    kernel: KernelSyncs, tmp_path: Path
) -> None:
    file = os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT)
    with socket.socket() as no_file:
        submitted = kernel.submit([Target(file), Target(no_file.fileno()), Target(file)])
        assert submitted is not None
        assert submitted.taken == 1
        assert await submitted.outcomes == [None]
        assert kernel.submit([Target(no_file.fileno())]) is None
    os.close(file)
    kernel.close()


async def test_concurrent_submissions_do_not_mix(kernel: KernelSyncs, tmp_path: Path) -> None:
    file = os.open(tmp_path / "a", os.O_RDWR | os.O_CREAT)
    rounds = []
    for count in (1, 7, 3):
        os.write(file, b"x")
        rounds.append(kernel.submit([Target(file)] * count))
    assert [len(await each.outcomes) for each in rounds if each is not None] == [1, 7, 3]
    os.close(file)
    kernel.close()


async def test_a_group_fails_alone(tmp_path: Path) -> None:
    disk = RealDisk(max_open_files=1)
    files = [disk.open_file(str(tmp_path / str(number))) for number in range(3)]
    os.remove(files[1].path)
    failures = await disk.sync_groups([SyncGroup([file], [str(tmp_path)]) for file in files])
    assert failures[0] is None
    assert isinstance(failures[1], StaleFile)
    assert failures[2] is None


async def test_a_closed_file_needs_no_sync(tmp_path: Path) -> None:
    disk = RealDisk()
    file = disk.open_file(str(tmp_path / "a"))
    file.close()
    assert await disk.sync_groups([SyncGroup([file])]) == [None]


async def test_a_missing_directory_fails_its_group(tmp_path: Path) -> None:
    failures = await RealDisk().sync_groups(
        [SyncGroup((), [str(tmp_path / "missing")]), SyncGroup((), [str(tmp_path)])]
    )
    assert isinstance(failures[0], FileNotFoundError)
    assert failures[1] is None


async def test_more_files_than_descriptors_are_synced_in_turns(tmp_path: Path) -> None:
    disk = RealDisk(max_open_files=3)
    files = [disk.open_file(str(tmp_path / str(number))) for number in range(20)]
    for file in files:
        file.append([b"x"])
    assert await disk.sync_groups([SyncGroup([file]) for file in files]) == [None] * 20


async def test_without_kernel_support_a_thread_syncs_and_reports_each_target(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _disable_kernel_syncs(monkeypatch)
    sync = os.fdatasync
    disk = RealDisk()
    files = [disk.open_file(str(tmp_path / str(number))) for number in range(3)]
    bad = os.fstat(files[1].descriptor()).st_ino
    tried: list[int] = []

    def fail_for_one(descriptor: int) -> None:
        tried.append(descriptor)
        if os.fstat(descriptor).st_ino == bad:
            raise OSError(errno.EIO, "the device failed")
        sync(descriptor)

    monkeypatch.setattr(os, "fdatasync", fail_for_one)
    failures = await disk.sync_groups([SyncGroup([file], [str(tmp_path)]) for file in files])
    assert [failure is None for failure in failures] == [True, False, True]
    assert len(tried) == 3


async def test_files_are_replaced_together_and_leave_nothing_else_behind(tmp_path: Path) -> None:
    disk = RealDisk()
    disk.replace_file(str(tmp_path / "a"), b"old and longer")
    await disk.replace_files([Replacement(str(tmp_path / name), name.encode()) for name in ("a", "b")])
    assert _contents(tmp_path) == {"a": b"a", "b": b"b"}
    assert disk.open_files == 0


async def test_replacements_that_fail_leave_the_old_content_and_no_other_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _disable_kernel_syncs(monkeypatch)

    def fail(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "no space")

    disk = RealDisk()
    disk.replace_file(str(tmp_path / "a"), b"old")
    monkeypatch.setattr(os, "fdatasync", fail)
    with pytest.raises(OSError, match="no space"):
        await disk.replace_files([Replacement(str(tmp_path / "a"), b"new")])
    assert _contents(tmp_path) == {"a": b"old"}


def _contents(directory: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in directory.iterdir()}


def _disable_kernel_syncs(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(loop: asyncio.AbstractEventLoop) -> KernelSyncs:
        raise OSError(errno.ENOSYS, "not here")

    monkeypatch.setattr(kernel_syncs, "KernelSyncs", refuse)
