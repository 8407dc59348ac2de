"""The aborted transactions of a segment, which readers of committed data are told to skip.

Aborts are rare, so an index is a file that is appended to at once and read whole when it is asked; a segment without aborts
has none.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from catchment.ports.disk import Disk, File, StaleFile
from catchment.protocol.batch import CorruptBatch

_ENTRY = struct.Struct(">hqqqq")
_VERSION = 0


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex:
    __slots__ = ("_disk", "_file", "_is_closed", "_size", "path")

    def __init__(self, disk: Disk, path: str, size: int) -> None:
        self._disk = disk
        self._file: File | None = None
        self._is_closed = False
        self._size = size - size % _ENTRY.size
        self.path = path

    def __len__(self) -> int:
        return self._size // _ENTRY.size

    def append(self, aborted: AbortedTransaction) -> File:
        """Add an entry; the file now waits for a sync."""
        file = self._open()
        file.append([_ENTRY.pack(_VERSION, *aborted)])
        self._size = file.size
        return file

    def entries(self) -> list[AbortedTransaction]:
        if not self._size:
            return []
        data = self._open().read(0, self._size)
        if len(data) != self._size:
            raise CorruptBatch(f"{self.path} holds {len(data)} bytes, not {self._size}")
        return [AbortedTransaction(*fields[1:]) for fields in _ENTRY.iter_unpack(data)]

    def truncate(self, offset: int) -> None:
        """Drop the transactions that ended at `offset` or later."""
        kept = sum(1 for entry in self.entries() if entry.last_offset < offset)
        if kept < len(self):
            self._cut(kept * _ENTRY.size)

    def clear(self) -> None:
        if self._size or self._disk.exists(self.path):
            self._cut(0)

    def remove_last(self) -> None:
        """Take back an entry whose marker could not be written."""
        self._cut(self._size - _ENTRY.size)

    def close(self) -> None:
        """Let go of the file for good: another index may get its name."""
        self._is_closed = True
        if self._file is not None:
            self._file.close()
            self._file = None

    def _cut(self, size: int) -> None:
        self._open().truncate(size)
        self._size = size

    def _open(self) -> File:
        if self._file is None:
            if self._is_closed:
                raise StaleFile(self.path)
            self._file = self._disk.open_file(self.path)
            if self._file.size > self._size:
                self._file.truncate(self._size)
        return self._file
