"""The disk as a port: files that are appended to, truncated and synced, and their directories.

Appends and reads are synchronous, because they use the page cache. Only a sync waits for the device, so it is awaitable. The
blocking forms of a sync are for startup, shutdown and workers: nothing may block an event loop that serves requests.
Paths are plain strings, because a disk need not be a file system of this machine.
"""

import errno
from collections.abc import Sequence
from typing import NamedTuple, Protocol

from typing_extensions import Buffer


class UnusableDirectory(Exception):
    """A directory that a broker must not use in its present state. The message says why and what to do."""


class TornWrite(OSError):
    """A failed write left bytes at the end of the file that could not be truncated."""


class StaleFile(OSError):
    """The `File` has been closed, or its path names another file by now: open the path again."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ESTALE, "the file has been replaced or removed", path)


class DirectoryEntry(NamedTuple):
    name: str
    is_directory: bool
    size: int


class File(Protocol):
    """An append-only file that may be truncated. It never refers to another file that was created at the same path."""

    @property
    def path(self) -> str: ...

    @property
    def size(self) -> int: ...

    @property
    def is_closed(self) -> bool: ...

    def append(self, pieces: Sequence[Buffer]) -> None:
        """Write all pieces at the end, or raise OSError and leave the file unchanged; TornWrite if that is not possible."""
        ...

    def read(self, position: int, size: int) -> bytes:
        """Read up to `size` bytes; fewer only at the end of the file. Raises StaleFile once the file is closed."""
        ...

    def would_block(self, position: int, size: int) -> bool:
        """Whether a read would have to wait for the device: use `Disk.read_later` then, which does not block the event loop."""
        ...

    def truncate(self, size: int) -> None: ...

    def sync(self) -> None:
        """Block until the file's data is on the device. A failure is final: the kernel may have dropped the pages.

        A closed file is not synced: files are closed only once they are durable or no longer part of the log.
        """
        ...

    def close(self) -> None:
        """Close the file permanently: a reader that holds this object has to look for the data again."""
        ...


class SyncGroup(NamedTuple):
    """Files whose data, and directories whose entries, have to be durable together."""

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
        """Open for reading and appending. The file is created if it does not exist."""
        ...

    def exists(self, path: str) -> bool: ...

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        """The entries, sorted by name."""
        ...

    def make_directory(self, path: str) -> None:
        """Create the directory and its parents, if they do not exist."""
        ...

    def remove_file(self, path: str) -> None:
        """Remove the file, if it exists."""
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
        """Write a small file atomically: a crash leaves the old or the new content. The new one is durable on return."""
        ...

    def free_bytes(self, path: str) -> int: ...

    def lock_directory(self, path: str) -> DirectoryLock:
        """Lock `path`/.lock against other processes. Raises BlockingIOError if another process holds it."""
        ...

    async def sync_groups(self, groups: Sequence[SyncGroup]) -> list[OSError | None]:
        """Sync everything at once without blocking the event loop. Returns each group's first failure, final as in `File.sync`."""
        ...

    async def sync_files(self, files: Sequence[File]) -> None:
        """The same for one group of files. Raises OSError as `File.sync` does."""
        ...

    async def replace_files(self, replacements: Sequence[Replacement]) -> None:
        """As `replace_file` for each, without blocking the event loop. Only one call at a time may replace a path. After an
        OSError each file has its old or its new content."""
        ...

    async def read_later(self, file: File, position: int, size: int) -> bytes:
        """As `File.read`, without blocking the event loop. The file may be renamed or removed meanwhile."""
        ...
