"""The disk as the log sees it: files that are appended to, cut and synced, in directories.

Appends and reads are synchronous, because they meet the page cache; only a sync waits for the device, so it is awaitable.
Paths are plain strings: a disk need not be a file system of this machine.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from typing_extensions import Buffer


class UnusableDirectory(Exception):
    """A directory that a broker must not use as it is; the message says why and what to do."""


class DirectoryEntry(NamedTuple):
    name: str
    is_directory: bool
    size: int


class File(Protocol):
    """An append-only file that may be cut at its end."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    def append(self, pieces: Sequence[Buffer]) -> None:
        """Write all pieces at the end, or raise OSError and leave the size as it was."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Up to `size` bytes; fewer only at the end of the file."""
        ...

    def would_block(self, position: int, size: int) -> bool:
        """Whether a read would have to wait for the device: then `Disk.read_later` keeps the event loop free."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Block until the file's data is on the device. A failure is final: the kernel may have dropped the pages."""
        ...

    def close(self) -> None: ...


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
        """Replace `target` by `source`, atomically. An open `File` of `source` must be closed first."""
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

    async def sync_files(self, files: Sequence[File]) -> None:
        """Sync without holding up the event loop; OSError as `File.sync`."""
        ...

    async def read_later(self, file: File, position: int, size: int) -> bytes:
        """As `File.read`, without holding up the event loop; the file may be renamed or removed meanwhile."""
        ...
