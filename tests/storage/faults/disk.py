"""A disk on which every call has a number, and the call with a chosen number goes wrong in a chosen way.

`MemoryDisk` holds the files. What a real disk does in several system calls is several calls here too, so that each of them
gets its turn: replacing a small file, removing a tree.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Callable, Sequence
from enum import Enum
from typing import NamedTuple, TypeVar

from typing_extensions import Buffer

from catchment.ports.disk import DirectoryEntry, DirectoryLock, File, Replacement, SyncGroup, TornWrite
from catchment.ports.memory_disk import MemoryDisk, MemoryFile

Result = TypeVar("Result")


class Wrong(Enum):
    """How a call goes wrong."""

    NO_SPACE = "ENOSPC"
    BAD_DEVICE = "EIO"
    NO_DESCRIPTOR = "EMFILE"
    SHORT = "short write"
    TORN = "short write that cannot be cut off"
    END_BEFORE = "end before"
    END_AFTER = "end after"

    @property
    def is_end(self) -> bool:
        return self in (Wrong.END_BEFORE, Wrong.END_AFTER)


ERRORS = {
    Wrong.NO_SPACE: errno.ENOSPC,
    Wrong.BAD_DEVICE: errno.EIO,
    Wrong.NO_DESCRIPTOR: errno.EMFILE,
    Wrong.SHORT: errno.ENOSPC,
    Wrong.TORN: errno.ENOSPC,
}


class Fault(NamedTuple):
    number: int
    """The call that goes wrong, counted from 1."""
    wrong: Wrong


class ProcessEnd(BaseException):
    """The process ends here: nothing may catch it."""


class FaultFile:
    def __init__(self, disk: FaultDisk, file: MemoryFile) -> None:
        self._disk = disk
        self.inner = file

    @property
    def path(self) -> str:
        return self.inner.path

    @property
    def size(self) -> int:
        return self.inner.size

    @property
    def is_closed(self) -> bool:
        return self.inner.is_closed

    def append(self, pieces: Sequence[Buffer]) -> None:
        def write_some(wrong: Wrong) -> None:
            whole = b"".join(bytes(piece) for piece in pieces)
            if wrong is Wrong.TORN:
                self.inner.append([whole[: len(whole) // 2]])
                raise TornWrite(ERRORS[wrong], "torn", self.path)

        self._disk.call("append", self.path, lambda: self.inner.append(pieces), write_some)

    def read(self, position: int, size: int) -> bytes:
        return self._disk.call("read", self.path, lambda: self.inner.read(position, size))

    def would_block(self, position: int, size: int) -> bool:
        return self.inner.would_block(position, size)

    def truncate(self, size: int) -> None:
        self._disk.call("truncate", self.path, lambda: self.inner.truncate(size))

    def sync(self) -> None:
        def drop(wrong: Wrong) -> None:
            """The kernel forgets what it could not write."""
            self._disk.inner.fail_syncs = True
            try:
                self.inner.sync()
            finally:
                self._disk.inner.fail_syncs = False

        if not self.is_closed:
            self._disk.call("sync", self.path, self.inner.sync, drop)

    def close(self) -> None:
        self.inner.close()


def _nothing(wrong: Wrong) -> None:
    """Most calls that fail do nothing."""


class FaultDisk:
    def __init__(self, inner: MemoryDisk) -> None:
        self.inner = inner
        self.calls: list[str] = []
        self.fault: Fault | None = None
        self.is_struck = False

    def begin(self, fault: Fault | None) -> None:
        """Count from here; the call that the fault names goes wrong."""
        self.calls, self.fault, self.is_struck = [], fault, False

    def end(self) -> None:
        self.fault = None

    def call(
        self, name: str, path: str, act: Callable[[], Result], go_wrong: Callable[[Wrong], None] = _nothing
    ) -> Result:
        self.calls.append(name)
        fault = self.fault
        if fault is None or len(self.calls) != fault.number:
            return act()
        self.is_struck = True
        if fault.wrong is Wrong.END_BEFORE:
            raise ProcessEnd
        if fault.wrong is Wrong.END_AFTER:
            act()
            raise ProcessEnd
        go_wrong(fault.wrong)
        number = ERRORS[fault.wrong]
        raise OSError(number, os.strerror(number), path)

    def open_file(self, path: str) -> FaultFile:
        return FaultFile(self, self.call("open", path, lambda: self.inner.open_file(path)))

    def exists(self, path: str) -> bool:
        return self.call("exists", path, lambda: self.inner.exists(path))

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        return self.call("list", path, lambda: self.inner.list_directory(path))

    def make_directory(self, path: str) -> None:
        self.call("make directory", path, lambda: self.inner.make_directory(path))

    def remove_file(self, path: str) -> None:
        self.call("remove", path, lambda: self.inner.remove_file(path))

    def remove_tree(self, path: str) -> None:
        for entry in self.list_directory(path):
            child = posixpath.join(path, entry.name)
            if entry.is_directory:
                self.remove_tree(child)
            else:
                self.remove_file(child)
        self.call("remove directory", path, lambda: self.inner.remove_tree(path))

    def rename(self, source: str, target: str) -> None:
        self.call("rename", source, lambda: self.inner.rename(source, target))

    def sync_directory(self, path: str) -> None:
        self.call("sync directory", path, lambda: self.inner.sync_directory(path))

    def read_file(self, path: str) -> bytes:
        return self.call("read file", path, lambda: self.inner.read_file(path))

    def replace_file(self, path: str, data: bytes) -> None:
        temporary = path + ".tmp"
        try:
            file = self.open_file(temporary)
            file.truncate(0)
            file.append([data])
            file.sync()
            self.rename(temporary, path)
        except OSError:
            self.inner.remove_file(temporary)
            raise
        self.sync_directory(posixpath.dirname(path))

    def free_bytes(self, path: str) -> int:
        return self.call("free bytes", path, lambda: self.inner.free_bytes(path))

    def lock_directory(self, path: str) -> DirectoryLock:
        return self.call("lock", path, lambda: self.inner.lock_directory(path))

    async def sync_groups(self, groups: Sequence[SyncGroup]) -> list[OSError | None]:
        raise NotImplementedError("the table is synchronous")

    async def replace_files(self, replacements: Sequence[Replacement]) -> None:
        raise NotImplementedError("the table is synchronous")

    async def sync_files(self, files: Sequence[File]) -> None:
        for file in files:
            file.sync()

    async def read_later(self, file: File, position: int, size: int) -> bytes:
        return file.read(position, size)


def copy_of(disk: MemoryDisk, path: str = "/") -> MemoryDisk:
    """Another disk with the same names and bytes, all of it on the device."""
    copy = MemoryDisk()
    folders = [path]
    while folders:
        folder = folders.pop()
        copy.make_directory(folder)
        for entry in disk.list_directory(folder):
            child = posixpath.join(folder, entry.name)
            if entry.is_directory:
                folders.append(child)
            else:
                file = copy.open_file(child)
                file.append([disk.read_file(child)])
                file.sync()
    return copy
