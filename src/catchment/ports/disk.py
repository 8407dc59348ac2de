"""The disk as the log sees it: files that are appended to, cut and synced, in directories.

Appends and reads are synchronous, because they meet the page cache; only a sync waits for the device, so it is awaitable. The
blocking forms of a sync are for a start, a stop and for workers: while a loop serves requests, none may wait on it.
Paths are plain strings: a disk need not be a file system of this machine.
"""

import errno
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from typing_extensions import Buffer


class UnusableDirectory(Exception):
    """A directory that a broker must not use as it is; the message says why and what to do."""


class TornWrite(OSError):
    """A write that failed left bytes behind that could not be cut off again: the file is not what it was."""


class StaleFile(OSError):
    """The file behind a `File` has been closed for good, or its path names another file by now: look again."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ESTALE, "the file has been replaced or removed", path)


class DirectoryEntry(NamedTuple):
    name: str
    is_directory: bool
    size: int


class File(Protocol):
    """An append-only file that may be cut at its end. It never stands for another file that has got the same path."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def is_closed(self) -> bool: ...

    def append(self, pieces: Sequence[Buffer]) -> None:
        """Write all pieces at the end, or raise OSError and leave the file as it was; TornWrite if that is not possible."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file. StaleFile once the file is closed."""
        ...

    def would_block(self, position: int, size: int) -> bool:
        """Whether a read would have to wait for the device: then `Disk.read_later` keeps the event loop free."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Block until the file's data is on the device. A failure is final: the kernel may have dropped the pages.

        Nothing happens once the file is closed: only what has left the log, or is safe, is closed.
        """
        ...

    def close(self) -> None:
        """Let go of the file for good: a reader that holds this object must look for the data again."""
        ...


class SyncGroup(NamedTuple):
    """What its owner counts on only once all of it is on the device: the data of files, and the names in directories."""

    files: Sequence[File]
    directories: Sequence[str] = ()


class Replacement(NamedTuple):
    """The new content of a small file."""

    path: str
    data: bytes


class DirectoryLock(Protocol):
    def release(self) -> None: ...


class Disk(Protocol):
    def open_file(self, path: str) -> File:
        """Open for reading and appending; the file is created if it is not there."""
        ...

    def exists(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        """Entries in name order."""
        ...

    def make_directory(self, path: str) -> None:
        """Create the directory and its parents; nothing happens if it exists."""
        ...

    def remove_file(self, path: str) -> None:
        """Remove the file; nothing happens if it is gone."""
        ...

    def remove_tree(self, path: str) -> None: ...

    def rename(self, source: str, target: str) -> None:
        """Replace `target` by `source`, atomically. A `File` of either must be closed afterwards, before its next use."""
        ...

    def sync_directory(self, path: str) -> None:
        """Make creations, renames and removals in the directory durable."""
        ...

    def read_file(self, path: str) -> bytes: ...

    def replace_file(self, path: str, data: bytes) -> None:
        """Write a small file so that a crash leaves either the old or the new content, durable on return."""
        ...

    def free_bytes(self, path: str) -> int: ...

    def lock_directory(self, path: str) -> DirectoryLock:
        """Hold `path`/.lock against other processes; BlockingIOError if another holds it."""
        ...

    async def sync_groups(self, groups: Sequence[SyncGroup]) -> list[OSError | None]:
        """Sync everything at once without holding up the event loop; for each group its first failure, final as in `File.sync`."""
        ...

    async def sync_files(self, files: Sequence[File]) -> None:
        """The same for one group of files; OSError as `File.sync`."""
        ...

    async def replace_files(self, replacements: Sequence[Replacement]) -> None:
        """As `replace_file` for each, without holding up the event loop. One at a time for a path; after an OSError each is as
        it was or as it should be."""
        ...

    async def read_later(self, file: File, position: int, size: int) -> bytes:
        """As `File.read`, without holding up the event loop; the file may be renamed or removed meanwhile."""
        ...
