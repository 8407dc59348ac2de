"""The files and directories of a memory disk, and which part of each is on the device.

A power loss keeps what was synced. Of the rest, a file keeps an arbitrary prefix with torn sectors in it, or gets back what was
truncated; a directory keeps the first few of its changes, because file systems journal them in order.
"""

from __future__ import annotations

from random import Random
from typing import Final, NamedTuple

_SECTOR_BYTES: Final = 512
_PENDING_CHANGES: Final = 32
"""A directory with more unsynced changes writes them back by itself, as a kernel does, so that removed files are freed."""


class FileNode:
    """A file's bytes. The device holds `data[:durable_size] + cut_off`; the rest of `data` is in the page cache alone."""

    __slots__ = ("cut_off", "data", "durable_size")

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)
        self.durable_size = len(data)
        self.cut_off = b""

    def sync(self) -> None:
        self.durable_size = len(self.data)
        self.cut_off = b""

    def drop_unsynced(self) -> None:
        """Lose the unsynced bytes, as a kernel drops pages that it could not write. The file keeps its length."""
        self.data[self.durable_size :] = bytes(len(self.data) - self.durable_size)

    def after_crash(self, random: Random) -> FileNode:
        durable = bytes(memoryview(self.data)[: self.durable_size])
        if self.cut_off and random.random() < 0.5:
            return FileNode(durable + self.cut_off)
        unsynced = self.data[self.durable_size :]
        kept = unsynced[: random.randint(0, len(unsynced))]
        if random.random() < 0.5:
            _tear(kept, self.durable_size, random)
        return FileNode(durable + kept)


def _tear(kept: bytearray, position: int, random: Random) -> None:
    """Tear some of the sectors that were being written: some become zeros, others garbage."""
    start = 0
    while start < len(kept):
        end = min(len(kept), start + _SECTOR_BYTES - (position + start) % _SECTOR_BYTES)
        damage = random.random()
        if damage < 0.2:
            kept[start:end] = bytes(end - start)
        elif damage < 0.3:
            kept[start:end] = random.randbytes(end - start)
        start = end


class DirectoryNode:
    """The entries as the process sees them, as they are on the device, and the changes between the two, oldest first."""

    __slots__ = ("durable", "entries", "pending")

    def __init__(self) -> None:
        self.entries: dict[str, Node] = {}
        self.durable: dict[str, Node] = {}
        self.pending: list[tuple[Change, ...]] = []

    def change(self, *changes: Change) -> None:
        """Apply changes that become durable together or not at all."""
        for change in changes:
            _apply(change, change.directory.entries)
        self.pending.append(changes)
        if len(self.pending) > _PENDING_CHANGES:
            self.write_back(1)

    def write_back(self, count: int) -> None:
        for changes in self.pending[:count]:
            for change in changes:
                _apply(change, change.directory.durable)
        del self.pending[:count]

    def sync(self) -> None:
        self.write_back(len(self.pending))


Node = FileNode | DirectoryNode


class Change(NamedTuple):
    """In `directory`, `name` now refers to `node`, or was removed."""

    directory: DirectoryNode
    name: str
    node: Node | None


def _apply(change: Change, names: dict[str, Node]) -> None:
    if change.node is None:
        names.pop(change.name, None)
    else:
        names[change.name] = change.node


class PowerLoss:
    """One power loss, with its source of randomness. It does not change the nodes, so a disk can be crashed many times."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._names: dict[DirectoryNode, dict[str, Node]] = {}
        self._files: dict[FileNode, FileNode] = {}

    def directory_after(self, root: DirectoryNode) -> DirectoryNode:
        self._collect(root)
        for directory in self._names:
            survivors = self._random.randint(0, len(directory.pending))
            for changes in directory.pending[:survivors]:
                for change in changes:
                    if change.directory in self._names:
                        _apply(change, self._names[change.directory])
        return self._rebuild(root)

    def _collect(self, directory: DirectoryNode) -> None:
        """Record the durable entries of every directory that may exist after the loss."""
        if directory in self._names:
            return
        self._names[directory] = dict(directory.durable)
        changed = [change.node for changes in directory.pending for change in changes]
        for node in [*directory.durable.values(), *changed]:
            if isinstance(node, DirectoryNode):
                self._collect(node)

    def _rebuild(self, directory: DirectoryNode) -> DirectoryNode:
        after = DirectoryNode()
        for name, node in self._names[directory].items():
            if isinstance(node, DirectoryNode):
                after.entries[name] = self._rebuild(node)
            else:
                after.entries[name] = self._file_after(node)
        after.durable.update(after.entries)
        return after

    def _file_after(self, node: FileNode) -> FileNode:
        if node not in self._files:
            self._files[node] = node.after_crash(self._random)
        return self._files[node]
