"""The indexes of a segment: two sparse ones that lead near a batch, and the one of aborted transactions.

One class serves both of Kafka's sparse indexes. `.index` maps the relative offset of a batch's last record to the batch's
position, `.timeindex` maps the largest timestamp so far to the relative offset of its record. They are in memory for the active
segment, on disk for the rest. The file is the buffer as it stands, so loading and writing copy nothing entry by entry. An index
that is not loaded is searched on disk, one small read a step: its cost grows with the logarithm of the segment, and idle segments
take no memory.

Aborts are rare, so the transaction index is a file that is appended to at once and read whole; a segment without aborts has none.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from catchment.ports.disk import Disk, File, StaleFile
from catchment.protocol.batch import CorruptBatch

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")
_TRANSACTION_ENTRY = struct.Struct(">hqqqq")
_TRANSACTION_VERSION = 0


class _IndexFile:
    """The file of an index: opened on first use, until the index is closed for good."""

    __slots__ = ("_disk", "_file", "_is_closed", "path")

    def __init__(self, disk: Disk, path: str) -> None:
        self._disk = disk
        self._file: File | None = None
        self._is_closed = False
        self.path = path

    def close(self) -> None:
        """Close the file for good: another index may get its name."""
        self._is_closed = True
        if self._file is not None:
            self._file.close()
            self._file = None

    def _open(self) -> File:
        if self._file is None:
            if self._is_closed:
                raise StaleFile(self.path)
            self._file = self._disk.open_file(self.path)
        return self._file


class SparseIndex(_IndexFile):
    __slots__ = ("_buffer", "_entry", "_is_file_longer", "_written")

    def __init__(self, disk: Disk, path: str, entry: struct.Struct, size: int | None) -> None:
        """`size` is that of the file on disk, or None if there is none yet."""
        super().__init__(disk, path)
        self._entry = entry
        # How much of the file agrees with the index; -1 where there is no file. A longer file is cut at the next flush.
        self._written = -1 if size is None else size
        self._is_file_longer = False
        self._buffer: bytearray | None = bytearray() if size is None else None

    def __len__(self) -> int:
        size = self._written if self._buffer is None else len(self._buffer)
        return size // self._entry.size

    def load(self) -> None:
        """Load the whole index into memory, so that it can grow."""
        if self._buffer is None:
            self._buffer = bytearray(self._open().read(0, self._written))

    def unload(self) -> None:
        """Free the memory of what the file holds."""
        if self._buffer is not None and len(self._buffer) == self._written and not self._is_file_longer:
            self._buffer = None

    def entry(self, number: int) -> tuple[int, int]:
        size = self._entry.size
        if self._buffer is not None:
            key, value = self._entry.unpack_from(self._buffer, number * size)
        else:
            key, value = self._entry.unpack(self._open().read(number * size, size))
        return key, value

    def entries(self) -> Iterator[tuple[int, int]]:
        return (self.entry(number) for number in range(len(self)))

    def last(self) -> tuple[int, int] | None:
        count = len(self)
        return self.entry(count - 1) if count else None

    def append(self, key: int, value: int) -> None:
        """Add an entry to an index that is loaded: this reads nothing, so that it cannot fail."""
        assert self._buffer is not None
        self._buffer += self._entry.pack(key, value)

    def floor(self, key: int) -> tuple[int, int] | None:
        """The last entry whose key is at most `key`."""
        count = self._count_below(key + 1, 0)
        return self.entry(count - 1) if count else None

    def ceiling_of_value(self, value: int) -> tuple[int, int] | None:
        """The first entry whose value is at least `value`; values rise with their keys."""
        count = self._count_below(value, 1)
        return self.entry(count) if count < len(self) else None

    def truncate_keys(self, key: int) -> None:
        """Drop the entries whose key is `key` or more."""
        self._truncate(self._count_below(key, 0))

    def truncate_values(self, value: int) -> None:
        """Drop the entries whose value is `value` or more; values rise with their keys."""
        self._truncate(self._count_below(value, 1))

    def clear(self) -> None:
        """Forget all entries; the file follows at the next flush."""
        self._buffer = bytearray()
        self._is_file_longer = self._is_file_longer or self._written > 0
        self._written = min(self._written, 0)

    def flush(self) -> File | None:
        """Write what the file lacks; the file if it changed and is now unsynced."""
        if self._buffer is None or (self._written == len(self._buffer) and not self._is_file_longer):
            return None
        file = self._open()
        self._written = max(self._written, 0)
        if file.size > self._written:
            file.truncate(self._written)
        self._is_file_longer = False
        if self._written < len(self._buffer):
            file.append([bytes(self._buffer[self._written :])])
        self._written = len(self._buffer)
        return file

    def _count_below(self, bound: int, column: int) -> int:
        low, high = 0, len(self)
        while low < high:
            middle = (low + high) // 2
            if self.entry(middle)[column] < bound:
                low = middle + 1
            else:
                high = middle
        return low

    def _truncate(self, count: int) -> None:
        if count == len(self):
            return
        self.load()
        assert self._buffer is not None
        size = count * self._entry.size
        del self._buffer[size:]
        if self._written > size:
            self._written = size
            self._is_file_longer = True


class AbortedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    last_stable_offset: int


class TransactionIndex(_IndexFile):
    __slots__ = ("_size",)

    def __init__(self, disk: Disk, path: str, size: int) -> None:
        super().__init__(disk, path)
        self._size = size - size % _TRANSACTION_ENTRY.size

    def __len__(self) -> int:
        return self._size // _TRANSACTION_ENTRY.size

    @property
    def file(self) -> File:
        """The file that the next `append` changes, created if need be."""
        return self._open()

    def append(self, aborted: AbortedTransaction) -> None:
        """Add an entry; the file is then unsynced."""
        file = self._open()
        file.append([_TRANSACTION_ENTRY.pack(_TRANSACTION_VERSION, *aborted)])
        self._size = file.size

    def entries(self) -> list[AbortedTransaction]:
        if not self._size:
            return []
        data = self._open().read(0, self._size)
        if len(data) != self._size:
            raise CorruptBatch(f"{self.path} holds {len(data)} bytes, not {self._size}")
        return [AbortedTransaction(*fields[1:]) for fields in _TRANSACTION_ENTRY.iter_unpack(data)]

    def truncate(self, offset: int) -> None:
        """Drop the transactions that ended at `offset` or later."""
        kept = sum(1 for entry in self.entries() if entry.last_offset < offset)
        if kept < len(self):
            self._cut(kept * _TRANSACTION_ENTRY.size)

    def clear(self) -> None:
        if self._size or self._disk.exists(self.path):
            self._cut(0)

    def remove_last(self) -> None:
        """Remove an entry whose marker could not be written."""
        self._cut(self._size - _TRANSACTION_ENTRY.size)

    def _cut(self, size: int) -> None:
        self._open().truncate(size)
        self._size = size

    def _open(self) -> File:
        is_open = self._file is not None
        file = super()._open()
        if not is_open and file.size > self._size:
            file.truncate(self._size)
        return file
