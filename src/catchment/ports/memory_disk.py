"""A disk in memory that can fail as a real one does: it loses unsynced writes, tears sectors, fills up and returns errors.

Appended bytes are in the page cache until the file is synced, and changes of a directory until the directory is synced. `crash`
returns the disk that a power loss leaves: it has all that was synced and an arbitrary part of the rest. A killed process
loses nothing: the next one continues with the same disk.

The embedded broker uses this disk under load, so the normal case is cheap: an append extends a bytearray, a sync records its
length, and bytes are copied only where a truncation removes what was already on the device.
"""

from __future__ import annotations

import errno
import os
import posixpath
from collections.abc import Sequence
from random import Random
from threading import Lock
from typing import Final

from typing_extensions import Buffer

from catchment.ports.disk import DirectoryEntry, File, Replacement, StaleFile, SyncGroup
from catchment.ports.page_cache import Change, DirectoryNode, FileNode, Node, PowerLoss

_ENDLESS_BYTES: Final = 1 << 40


class MemoryFile:
    __slots__ = ("_disk", "_node", "is_closed", "path")

    def __init__(self, disk: MemoryDisk, node: FileNode, path: str) -> None:
        self._disk = disk
        self._node = node
        self.is_closed = False
        self.path = path

    @property
    def size(self) -> int:
        return len(self._node.data)

    def append(self, pieces: Sequence[Buffer]) -> None:
        disk = self._disk
        if disk.is_faulty:
            disk.take_room(sum(memoryview(piece).nbytes for piece in pieces), self.path)
        self._check_open()
        data = self._node.data
        with disk.lock:
            for piece in pieces:
                data += piece

    def read(self, position: int, size: int) -> bytes:
        self._check_open()
        # The lock keeps other threads from appending meanwhile: a bytearray with views cannot grow.
        with self._disk.lock, memoryview(self._node.data) as view:
            return bytes(view[position : position + size])

    def would_block(self, position: int, size: int) -> bool:
        self._check_open()
        return False

    def truncate(self, size: int) -> None:
        self._check_open()
        self._disk.check_writable(self.path)
        node = self._node
        with self._disk.lock:
            self._disk.give_room(len(node.data) - size)
            if size < node.durable_size:
                node.cut_off = bytes(node.data[size : node.durable_size]) + node.cut_off
                node.durable_size = size
            if size < len(node.data):
                del node.data[size:]
            else:
                node.data.extend(bytes(size - len(node.data)))

    def sync(self) -> None:
        if self.is_closed:
            return
        if self._disk.fail_syncs:
            with self._disk.lock:
                self._node.drop_unsynced()
            raise _error(errno.EIO, self.path)
        self._node.sync()

    def close(self) -> None:
        self.is_closed = True

    def _check_open(self) -> None:
        if self.is_closed:
            raise StaleFile(self.path)


class MemoryDisk:
    """Files and directories in memory. Faults are switched on and off while the disk is in use, from any thread."""

    def __init__(self) -> None:
        self.lock = Lock()
        self.fail_writes = False
        """Appends fail with EIO and change nothing."""
        self.fail_syncs = False
        """Syncs fail with EIO, and unsynced bytes read as zeros afterwards."""
        self.read_only = False
        self._bytes_left: int | None = None
        self._root = DirectoryNode()
        self._locked: set[str] = set()

    def fill(self, bytes_left: int = 0) -> None:
        """Leave `bytes_left` bytes free. An append beyond them fails with ENOSPC. Removing and truncating free space again."""
        self._bytes_left = bytes_left

    def make_room(self) -> None:
        """Undo `fill`."""
        self._bytes_left = None

    def crash(self, random: Random) -> MemoryDisk:
        """The disk after a power loss. This one stays usable, for code that still writes to it."""
        after = MemoryDisk()
        after._root = PowerLoss(random).directory_after(self._root)
        return after

    def unlock_all(self) -> None:
        """Release all locks, as the kernel does when a process dies."""
        self._locked.clear()

    @property
    def is_faulty(self) -> bool:
        return self.fail_writes or self.read_only or self._bytes_left is not None

    def check_writable(self, path: str) -> None:
        if self.read_only:
            raise _error(errno.EROFS, path)
        if self.fail_writes:
            raise _error(errno.EIO, path)

    def take_room(self, size: int, path: str) -> None:
        self.check_writable(path)
        if self._bytes_left is not None:
            if size > self._bytes_left:
                raise _error(errno.ENOSPC, path)
            self._bytes_left -= size

    def give_room(self, size: int) -> None:
        if self._bytes_left is not None:
            self._bytes_left += size

    def open_file(self, path: str) -> MemoryFile:
        directory, name = self._parent(path)
        node = directory.entries.get(name)
        if node is None:
            self.check_writable(path)
            node = FileNode()
            directory.change(Change(directory, name, node))
        return MemoryFile(self, _as_file(node, path), path)

    def exists(self, path: str) -> bool:
        return self._find(path) is not None

    def list_directory(self, path: str) -> list[DirectoryEntry]:
        entries = self._directory(path).entries
        return [
            DirectoryEntry(name, False, len(node.data)) if isinstance(node, FileNode) else DirectoryEntry(name, True, 0)
            for name, node in sorted(entries.items())
        ]

    def make_directory(self, path: str) -> None:
        directory = self._root
        for name in _names(path):
            node = directory.entries.get(name)
            if node is None:
                self.check_writable(path)
                node = DirectoryNode()
                directory.change(Change(directory, name, node))
            if isinstance(node, FileNode):
                raise _error(errno.ENOTDIR, path)
            directory = node

    def remove_file(self, path: str) -> None:
        directory, name = self._parent(path)
        node = directory.entries.get(name)
        if node is not None:
            self.check_writable(path)
            self.give_room(len(_as_file(node, path).data))
            directory.change(Change(directory, name, None))

    def remove_tree(self, path: str) -> None:
        for entry in self.list_directory(path):
            child = posixpath.join(path, entry.name)
            if entry.is_directory:
                self.remove_tree(child)
            else:
                self.remove_file(child)
        self.check_writable(path)
        directory, name = self._parent(path)
        directory.change(Change(directory, name, None))

    def rename(self, source: str, target: str) -> None:
        self.check_writable(source)
        source_directory, source_name = self._parent(source)
        target_directory, target_name = self._parent(target)
        node = source_directory.entries.get(source_name)
        if node is None:
            raise _error(errno.ENOENT, source)
        replaced = target_directory.entries.get(target_name)
        if isinstance(replaced, DirectoryNode) and replaced.entries:
            raise _error(errno.ENOTEMPTY, target)
        if isinstance(replaced, FileNode) and replaced is not node:
            self.give_room(len(replaced.data))
        removal = Change(source_directory, source_name, None)
        target_directory.change(removal, Change(target_directory, target_name, node))

    def sync_directory(self, path: str) -> None:
        directory = self._directory(path)
        if self.fail_syncs:
            raise _error(errno.EIO, path)
        directory.sync()

    def read_file(self, path: str) -> bytes:
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        return bytes(_as_file(node, path).data)

    def replace_file(self, path: str, data: bytes) -> None:
        directory, name = self._parent(path)
        old = directory.entries.get(name)
        old_size = 0 if old is None else len(_as_file(old, path).data)
        self.take_room(len(data), path)
        if self.fail_syncs:
            self.give_room(len(data))
            raise _error(errno.EIO, path)
        self.give_room(old_size)
        directory.change(Change(directory, name, FileNode(data)))
        directory.sync()

    def free_bytes(self, path: str) -> int:
        return _ENDLESS_BYTES if self._bytes_left is None else self._bytes_left

    def lock_directory(self, path: str) -> MemoryLock:
        self._directory(path)
        path = posixpath.normpath(path)
        if path in self._locked:
            raise BlockingIOError(errno.EAGAIN, "the directory is in use by another broker", path)
        self._locked.add(path)
        return MemoryLock(self._locked, path)

    async def sync_groups(self, groups: Sequence[SyncGroup]) -> list[OSError | None]:
        return [self._sync_group(group) for group in groups]

    async def sync_files(self, files: Sequence[File]) -> None:
        (failure,) = await self.sync_groups([SyncGroup(files)])
        if failure is not None:
            raise failure

    async def replace_files(self, replacements: Sequence[Replacement]) -> None:
        for path, data in replacements:
            self.replace_file(path, data)

    def _sync_group(self, group: SyncGroup) -> OSError | None:
        try:
            for directory in group.directories:
                self.sync_directory(directory)
            for file in group.files:
                file.sync()
        except OSError as error:
            return error
        return None

    async def read_later(self, file: File, position: int, size: int) -> bytes:
        return file.read(position, size)

    def _find(self, path: str) -> Node | None:
        node: Node | None = self._root
        for name in _names(path):
            if not isinstance(node, DirectoryNode):
                return None
            node = node.entries.get(name)
        return node

    def _directory(self, path: str) -> DirectoryNode:
        node = self._find(path)
        if node is None:
            raise _error(errno.ENOENT, path)
        if isinstance(node, FileNode):
            raise _error(errno.ENOTDIR, path)
        return node

    def _parent(self, path: str) -> tuple[DirectoryNode, str]:
        parent, name = posixpath.split(posixpath.normpath(path))
        return self._directory(parent), name


class MemoryLock:
    def __init__(self, locked: set[str], path: str) -> None:
        self._locked = locked
        self._path = path

    def release(self) -> None:
        self._locked.discard(self._path)


def _names(path: str) -> list[str]:
    return [name for name in posixpath.normpath(path).split("/") if name not in ("", ".")]


def _as_file(node: Node, path: str) -> FileNode:
    if isinstance(node, DirectoryNode):
        raise _error(errno.EISDIR, path)
    return node


def _error(number: int, path: str) -> OSError:
    return OSError(number, os.strerror(number), path)
