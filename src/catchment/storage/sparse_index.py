"""A sparse index: sorted pairs of fixed size that lead near a batch, in memory for the active segment, on disk for the rest.

One class serves both of Kafka's indexes. `.index` maps the relative offset of a batch's last record to the batch's position,
`.timeindex` maps the largest timestamp so far to the relative offset of its record. The file is the buffer as it stands, so
loading and writing copy nothing entry by entry. An index that is not loaded is searched on disk, one small read a step: its
cost grows with the logarithm of the segment, and idle segments take no memory.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator

from catchment.ports.disk import Disk, File, StaleFile

OFFSET_ENTRY = struct.Struct(">ii")
TIME_ENTRY = struct.Struct(">qi")


class SparseIndex:
    __slots__ = ("_buffer", "_disk", "_entry", "_file", "_is_closed", "_is_file_longer", "_written", "path")

    def __init__(self, disk: Disk, path: str, entry: struct.Struct, size: int | None) -> None:
        """`size` is that of the file on disk, or None if there is none yet."""
        self._disk = disk
        self._entry = entry
        self._file: File | None = None
        self._is_closed = False
        # How much of the file agrees with the index; -1 where there is no file. A longer file is cut at the next flush.
        self._written = -1 if size is None else size
        self._is_file_longer = False
        self._buffer: bytearray | None = bytearray() if size is None else None
        self.path = path

    def __len__(self) -> int:
        size = self._written if self._buffer is None else len(self._buffer)
        return size // self._entry.size

    def load(self) -> None:
        """Bring the whole index into memory, so that it can grow."""
        if self._buffer is None:
            self._buffer = bytearray(self._open().read(0, self._written))

    def unload(self) -> None:
        """Forget what the file holds anyway."""
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
        """Write what the file lacks; the file if it changed and now waits for a sync."""
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

    def close(self) -> None:
        """Let go of the file for good: another index may get its name."""
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
