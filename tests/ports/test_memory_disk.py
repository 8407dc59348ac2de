"""The memory disk: what a power loss loses, and injected faults."""

from __future__ import annotations

import asyncio
import errno
from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.ports.memory_disk import MemoryDisk

SEEDS = range(200)


@pytest.fixture
def disk() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory("/data")
    disk.sync_directory("/")
    return disk


def contents_after_crashes(disk: MemoryDisk, path: str) -> list[bytes | None]:
    """The content of a file after each of many power losses; None if the file is gone."""
    after = [disk.crash(Random(seed)) for seed in SEEDS]
    return [crashed.read_file(path) if crashed.exists(path) else None for crashed in after]


def test_synced_bytes_survive_every_power_loss(disk: MemoryDisk) -> None:
    file = disk.open_file("/data/log")
    disk.sync_directory("/data")
    file.append([b"synced" * 1000])
    asyncio.run(disk.sync_files([file]))
    file.append([b"unsynced" * 1000])
    contents = contents_after_crashes(disk, "/data/log")
    assert all(content is not None and content.startswith(b"synced" * 1000) for content in contents)
    assert len({content and len(content) for content in contents}) > 10


def test_unsynced_bytes_survive_whole_in_part_or_torn(disk: MemoryDisk) -> None:
    file = disk.open_file("/data/log")
    disk.sync_directory("/data")
    file.append([b"x" * 2000])
    contents = [content for content in contents_after_crashes(disk, "/data/log") if content]
    assert any(content.strip(b"x") == b"" for content in contents)
    assert any(b"\0" in content for content in contents)
    assert any(content.strip(b"x\0") for content in contents)
    assert all(len(content) <= 2000 for content in contents)


def test_a_sector_holding_synced_bytes_keeps_them_when_its_rest_is_torn(disk: MemoryDisk) -> None:
    file = disk.open_file("/data/log")
    disk.sync_directory("/data")
    file.append([b"s" * 100])
    file.sync()
    file.append([b"u" * 300])
    contents = contents_after_crashes(disk, "/data/log")
    assert all(content is not None and content[:100] == b"s" * 100 for content in contents)
    assert any(content is not None and content[100:].strip(b"u") for content in contents)


def test_a_truncation_may_be_undone_until_it_is_synced(disk: MemoryDisk) -> None:
    file = disk.open_file("/data/log")
    disk.sync_directory("/data")
    file.append([b"abcdef"])
    file.sync()
    file.truncate(4)
    file.truncate(2)
    file.append([b"xyz"])
    contents = contents_after_crashes(disk, "/data/log")
    assert b"abcdef" in contents
    assert b"abxyz" in contents
    assert b"ab" in contents
    file.sync()
    assert set(contents_after_crashes(disk, "/data/log")) == {b"abxyz"}


def test_a_file_whose_directory_was_not_synced_may_vanish(disk: MemoryDisk) -> None:
    file = disk.open_file("/data/log")
    file.append([b"abc"])
    file.sync()
    assert set(contents_after_crashes(disk, "/data/log")) == {b"abc", None}
    disk.sync_directory("/data")
    assert set(contents_after_crashes(disk, "/data/log")) == {b"abc"}


def test_an_unsynced_rename_survives_or_not_but_never_in_part(disk: MemoryDisk) -> None:
    disk.replace_file("/data/a", b"new")
    disk.replace_file("/data/b", b"old")
    disk.rename("/data/a", "/data/b")
    states = set()
    for seed in SEEDS:
        after = disk.crash(Random(seed))
        states.add((after.exists("/data/a"), after.read_file("/data/b")))
    assert states == {(True, b"old"), (False, b"new")}


def test_an_unsynced_removal_may_be_undone(disk: MemoryDisk) -> None:
    disk.replace_file("/data/a", b"content")
    disk.remove_tree("/data")
    assert set(contents_after_crashes(disk, "/data/a")) == {b"content", None}
    assert {disk.crash(Random(seed)).exists("/data") for seed in SEEDS} == {True, False}


def test_a_replaced_file_survives_whole(disk: MemoryDisk) -> None:
    disk.replace_file("/data/checkpoint", b"one")
    disk.replace_file("/data/checkpoint", b"two")
    assert set(contents_after_crashes(disk, "/data/checkpoint")) == {b"two"}


def test_a_file_moved_between_directories_is_never_lost(disk: MemoryDisk) -> None:
    disk.make_directory("/data/from")
    disk.make_directory("/data/to")
    disk.sync_directory("/data")
    disk.replace_file("/data/from/a", b"content")
    disk.rename("/data/from/a", "/data/to/a")
    for seed in SEEDS:
        after = disk.crash(Random(seed))
        assert after.exists("/data/from/a") != after.exists("/data/to/a")


def test_the_disk_after_a_crash_is_another_one(disk: MemoryDisk) -> None:
    file = disk.open_file("/data/log")
    disk.sync_directory("/data")
    disk.lock_directory("/data")
    after = disk.crash(Random(1))
    file.append([b"from a process that has not noticed"])
    assert after.read_file("/data/log") == b""
    after.lock_directory("/data")


def test_removed_files_are_freed(disk: MemoryDisk) -> None:
    for number in range(1000):
        disk.open_file(f"/data/{number}").append([b"x"])
        disk.remove_file(f"/data/{number}")
    survivors = {len(disk.crash(Random(seed)).list_directory("/data")) for seed in SEEDS}
    assert max(survivors) <= 1


def test_a_full_disk_rejects_what_does_not_fit_until_there_is_room(disk: MemoryDisk) -> None:
    file = disk.open_file("/data/log")
    disk.fill(bytes_left=10)
    file.append([b"12345", b"6789"])
    with pytest.raises(OSError, match="No space left") as caught:
        file.append([b"ab"])
    assert caught.value.errno == errno.ENOSPC
    assert file.size == 9
    assert disk.free_bytes("/data") == 1
    with pytest.raises(OSError, match="No space left"):
        disk.replace_file("/data/checkpoint", b"too long")
    file.truncate(2)
    file.append([b"12345678"])
    disk.make_room()
    file.append([b"x" * 1000])
    assert file.size == 1010


def test_removing_and_replacing_files_makes_room(disk: MemoryDisk) -> None:
    disk.fill(bytes_left=30)
    disk.replace_file("/data/a", b"x" * 10)
    disk.replace_file("/data/a", b"y" * 10)
    disk.replace_file("/data/b", b"z" * 10)
    disk.rename("/data/a", "/data/b")
    assert disk.free_bytes("/data") == 20
    disk.remove_file("/data/b")
    assert disk.free_bytes("/data") == 30


def test_failing_writes_change_nothing(disk: MemoryDisk) -> None:
    file = disk.open_file("/data/log")
    file.append([b"abc"])
    disk.fail_writes = True
    with pytest.raises(OSError, match="Input/output error"):
        file.append([b"def"])
    disk.fail_writes = False
    file.append([b"ghi"])
    assert file.read(0, 10) == b"abcghi"


def test_a_failed_sync_loses_unsynced_bytes_permanently(disk: MemoryDisk) -> None:
    file = disk.open_file("/data/log")
    disk.sync_directory("/data")
    file.append([b"abc"])
    file.sync()
    file.append([b"def"])
    disk.fail_syncs = True
    with pytest.raises(OSError, match="Input/output error"):
        asyncio.run(disk.sync_files([file]))
    with pytest.raises(OSError, match="Input/output error"):
        disk.sync_directory("/data")
    with pytest.raises(OSError, match="Input/output error"):
        disk.replace_file("/data/checkpoint", b"new")
    disk.fail_syncs = False
    file.sync()
    assert set(contents_after_crashes(disk, "/data/log")) == {b"abc\0\0\0"}
    assert not disk.exists("/data/checkpoint")


def test_a_read_only_disk_allows_reads_and_rejects_every_change(disk: MemoryDisk) -> None:
    file = disk.open_file("/data/log")
    file.append([b"abc"])
    disk.read_only = True
    refused: list[Callable[[], None]] = [
        lambda: file.append([b"d"]),
        lambda: file.truncate(0),
        lambda: disk.make_directory("/data/new"),
        lambda: disk.remove_file("/data/log"),
        lambda: disk.remove_tree("/data"),
        lambda: disk.rename("/data/log", "/data/other"),
        lambda: disk.replace_file("/data/log", b""),
    ]
    for change in refused:
        with pytest.raises(OSError, match="Read-only") as caught:
            change()
        assert caught.value.errno == errno.EROFS
    with pytest.raises(OSError, match="Read-only"):
        disk.open_file("/data/new")
    assert disk.open_file("/data/log").read(0, 3) == b"abc"


def test_a_dead_process_holds_no_lock(disk: MemoryDisk) -> None:
    disk.lock_directory("/data")
    disk.unlock_all()
    disk.lock_directory("/data/")


@given(
    steps=st.lists(
        st.one_of(st.binary(min_size=1, max_size=2000), st.just("sync"), st.integers(0, 3000)), min_size=1, max_size=20
    ),
    seed=st.integers(0, 2**32),
)
def test_whatever_happens_synced_bytes_that_were_not_truncated_survive(
    steps: list[bytes | str | int], seed: int
) -> None:
    disk = MemoryDisk()
    file = disk.open_file("/log")
    disk.sync_directory("/")
    safe = expected = b""
    for step in steps:
        if isinstance(step, bytes):
            file.append([step])
            expected += step
        elif isinstance(step, int):
            file.truncate(min(step, file.size))
            expected = expected[:step]
            safe = safe[:step]
        else:
            file.sync()
            safe = expected
    assert file.read(0, file.size) == expected
    assert disk.crash(Random(seed)).read_file("/log").startswith(safe)
