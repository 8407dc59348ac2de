"""The contract of every disk, for the real one and the one in memory."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

from catchment.ports.disk import DirectoryEntry, Disk
from catchment.ports.memory_disk import MemoryDisk
from catchment.ports.real_disk import RealDisk


@pytest.fixture(params=["real", "memory"])
def disk(request: pytest.FixtureRequest) -> Disk:
    return RealDisk() if request.param == "real" else MemoryDisk()


@pytest.fixture
def root(disk: Disk, tmp_path: Path) -> str:
    path = str(tmp_path / "root")
    disk.make_directory(path)
    return path


def test_a_new_file_is_empty_and_listed(disk: Disk, root: str) -> None:
    file = disk.open_file(f"{root}/a")
    assert file.size == 0
    assert file.path == f"{root}/a"
    assert disk.list_directory(root) == [DirectoryEntry("a", False, 0)]


def test_appended_pieces_read_back_at_any_position(disk: Disk, root: str) -> None:
    file = disk.open_file(f"{root}/a")
    file.append([b"abc", bytearray(b"def"), memoryview(b"xghix")[1:4]])
    file.append([b"jkl"])
    assert file.size == 12
    assert file.read(0, 12) == b"abcdefghijkl"
    assert file.read(5, 3) == b"fgh"
    assert isinstance(file.read(5, 3), bytes)


def test_an_append_of_nothing_changes_nothing(disk: Disk, root: str) -> None:
    file = disk.open_file(f"{root}/a")
    file.append([])
    file.append([b""])
    assert file.size == 0


def test_reads_are_short_only_at_the_end(disk: Disk, root: str) -> None:
    file = disk.open_file(f"{root}/a")
    file.append([b"abc"])
    assert file.read(2, 10) == b"c"
    assert file.read(3, 10) == b""
    assert file.read(9, 10) == b""


def test_more_pieces_than_one_system_call_takes_are_all_written(disk: Disk, root: str) -> None:
    file = disk.open_file(f"{root}/a")
    pieces = [bytes([number % 256]) * (number % 3) for number in range(3000)]
    file.append(pieces)
    assert file.read(0, 5000) == b"".join(pieces)


def test_a_truncated_file_is_appended_to_at_its_new_end(disk: Disk, root: str) -> None:
    file = disk.open_file(f"{root}/a")
    file.append([b"abcdef"])
    file.sync()
    file.truncate(2)
    assert file.size == 2
    file.append([b"xy"])
    assert file.read(0, 10) == b"abxy"


def test_a_reopened_file_has_its_content_and_size(disk: Disk, root: str) -> None:
    file = disk.open_file(f"{root}/a")
    file.append([b"abc"])
    file.close()
    again = disk.open_file(f"{root}/a")
    assert again.size == 3
    again.append([b"d"])
    assert disk.read_file(f"{root}/a") == b"abcd"


def test_a_closed_file_may_be_closed_again(disk: Disk, root: str) -> None:
    file = disk.open_file(f"{root}/a")
    file.close()
    file.close()


def test_files_are_synced_together_without_blocking(disk: Disk, root: str) -> None:
    files = [disk.open_file(f"{root}/{number}") for number in range(3)]
    for file in files:
        file.append([b"abc"])
    asyncio.run(disk.sync_files(files))
    assert [file.read(0, 3) for file in files] == [b"abc"] * 3


def test_directories_are_created_with_their_parents_and_listed_in_order(disk: Disk, root: str) -> None:
    disk.make_directory(f"{root}/b/c/d")
    disk.make_directory(f"{root}/b/c/d")
    disk.open_file(f"{root}/a").append([b"12345"])
    assert disk.list_directory(root) == [DirectoryEntry("a", False, 5), DirectoryEntry("b", True, 0)]
    assert disk.exists(f"{root}/b/c/d")
    assert not disk.exists(f"{root}/b/d")


def test_a_missing_path_is_not_found(disk: Disk, root: str) -> None:
    with pytest.raises(FileNotFoundError):
        disk.list_directory(f"{root}/missing")
    with pytest.raises(FileNotFoundError):
        disk.open_file(f"{root}/missing/a")
    with pytest.raises(FileNotFoundError):
        disk.read_file(f"{root}/missing")
    with pytest.raises(FileNotFoundError):
        disk.rename(f"{root}/missing", f"{root}/a")
    with pytest.raises(FileNotFoundError):
        disk.remove_tree(f"{root}/missing")
    disk.remove_file(f"{root}/missing")


def test_files_and_directories_are_not_interchangeable(disk: Disk, root: str) -> None:
    disk.open_file(f"{root}/file").close()
    disk.make_directory(f"{root}/directory")
    with pytest.raises(IsADirectoryError):
        disk.open_file(f"{root}/directory")
    with pytest.raises(NotADirectoryError):
        disk.list_directory(f"{root}/file")


def test_a_removed_file_is_gone(disk: Disk, root: str) -> None:
    disk.open_file(f"{root}/a").close()
    disk.remove_file(f"{root}/a")
    assert not disk.exists(f"{root}/a")


def test_a_removed_tree_is_gone_with_all_in_it(disk: Disk, root: str) -> None:
    disk.make_directory(f"{root}/b/c")
    disk.open_file(f"{root}/b/c/a").close()
    disk.remove_tree(f"{root}/b")
    assert disk.list_directory(root) == []


def test_a_rename_replaces_its_target(disk: Disk, root: str) -> None:
    disk.replace_file(f"{root}/a", b"new")
    disk.replace_file(f"{root}/b", b"old")
    disk.rename(f"{root}/a", f"{root}/b")
    assert disk.read_file(f"{root}/b") == b"new"
    assert not disk.exists(f"{root}/a")


def test_a_directory_is_renamed_with_all_in_it(disk: Disk, root: str) -> None:
    disk.make_directory(f"{root}/topic-0")
    disk.replace_file(f"{root}/topic-0/a", b"content")
    disk.rename(f"{root}/topic-0", f"{root}/topic-0.deleted")
    assert disk.read_file(f"{root}/topic-0.deleted/a") == b"content"
    assert not disk.exists(f"{root}/topic-0")


def test_a_directory_does_not_replace_one_that_is_not_empty(disk: Disk, root: str) -> None:
    disk.make_directory(f"{root}/a")
    disk.make_directory(f"{root}/b/c")
    with pytest.raises(OSError, match="not empty") as caught:
        disk.rename(f"{root}/a", f"{root}/b")
    assert caught.value.errno == errno.ENOTEMPTY


def test_a_replaced_file_leaves_nothing_else_behind(disk: Disk, root: str) -> None:
    disk.replace_file(f"{root}/checkpoint", b"one")
    disk.replace_file(f"{root}/checkpoint", b"two, which is longer")
    disk.sync_directory(root)
    assert disk.list_directory(root) == [DirectoryEntry("checkpoint", False, 20)]
    assert disk.read_file(f"{root}/checkpoint") == b"two, which is longer"


def test_free_bytes_are_reported(disk: Disk, root: str) -> None:
    assert disk.free_bytes(root) > 0


def test_a_locked_directory_cannot_be_locked_until_it_is_released(disk: Disk, root: str) -> None:
    lock = disk.lock_directory(root)
    with pytest.raises(BlockingIOError, match="in use"):
        disk.lock_directory(root)
    lock.release()
    disk.lock_directory(root).release()
