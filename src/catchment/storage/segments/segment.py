"""One segment: a `.log` file of batches and the sparse indexes beside it.

Index entries are Kafka's: one for each `index.interval.bytes`, added before the batch that crosses it is counted, keyed by
the offset of that batch's last record. Files are opened on first use.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from typing_extensions import Buffer

from catchment.ports.disk import Disk, File, StaleFile, TornWrite
from catchment.protocol.batch import NO_TIMESTAMP, BatchHeader
from catchment.storage import layout
from catchment.storage.segments.batch_scan import LocatedBatch, scan_headers
from catchment.storage.segments.index import OFFSET_ENTRY, TIME_ENTRY, AbortedTransaction, SparseIndex, TransactionIndex

LARGEST_RELATIVE_OFFSET = (1 << 31) - 1


class LogSegment:
    __slots__ = (
        "_bytes_since_index_entry",
        "_directory",
        "_disk",
        "_file",
        "_first_timestamp_ms",
        "_max_timestamp_ms",
        "_offset_of_max_timestamp",
        "base_offset",
        "is_closed",
        "modified_ms",
        "offset_index",
        "size",
        "time_index",
        "transaction_index",
    )

    def __init__(self, disk: Disk, directory: str, base_offset: int, now_ms: int, sizes: dict[str, int] | None) -> None:
        """`sizes` are those of the files on disk, by suffix; None for a new segment."""
        self._disk = disk
        self._directory = directory
        self._file: File | None = None
        self.is_closed = False
        self.base_offset = base_offset
        found = sizes or {}
        self.size = found.get(layout.LOG, 0)
        self.modified_ms = now_ms
        self._bytes_since_index_entry = 0
        self._first_timestamp_ms: int | None = None
        # None until the time index has been read: opening a log reads none.
        self._max_timestamp_ms: int | None = None if self.size else NO_TIMESTAMP
        self._offset_of_max_timestamp = base_offset
        self.offset_index = SparseIndex(
            disk, self.path(layout.OFFSET_INDEX), OFFSET_ENTRY, found.get(layout.OFFSET_INDEX)
        )
        self.time_index = SparseIndex(disk, self.path(layout.TIME_INDEX), TIME_ENTRY, found.get(layout.TIME_INDEX))
        self.transaction_index = TransactionIndex(
            disk, self.path(layout.TRANSACTION_INDEX), found.get(layout.TRANSACTION_INDEX, 0)
        )

    def path(self, suffix: str) -> str:
        return f"{self._directory}/{layout.file_name(self.base_offset, suffix)}"

    @property
    def file(self) -> File:
        if self._file is None:
            if self.is_closed:
                raise StaleFile(self.path(layout.LOG))
            self._file = self._disk.open_file(self.path(layout.LOG))
        return self._file

    @property
    def max_timestamp_ms(self) -> int:
        if self._max_timestamp_ms is None:
            self._find_max_timestamp()
        assert self._max_timestamp_ms is not None
        return self._max_timestamp_ms

    @property
    def offset_of_max_timestamp(self) -> int:
        """The last offset of the batch that holds the largest timestamp."""
        if self._max_timestamp_ms is None:
            self._find_max_timestamp()
        return self._offset_of_max_timestamp

    @property
    def first_timestamp_ms(self) -> int:
        """The first batch's largest timestamp, from which `segment.ms` counts; -1 while there is none."""
        if self._first_timestamp_ms is None:
            if not self.size:
                return NO_TIMESTAMP
            first = next(scan_headers(self.file, 0, self.size))
            self._first_timestamp_ms = first.header.max_timestamp_ms
        return self._first_timestamp_ms

    def holds_relative(self, offset: int) -> bool:
        return offset - self.base_offset <= LARGEST_RELATIVE_OFFSET

    def is_index_full(self, index_bytes: int) -> bool:
        return (
            len(self.offset_index) >= index_bytes // OFFSET_ENTRY.size
            or len(self.time_index) >= index_bytes // TIME_ENTRY.size - 1
        )

    def prepare(self) -> None:
        """Load everything that `note` needs: whatever can fail must happen before a batch is written."""
        self.offset_index.load()
        self.time_index.load()
        if self._max_timestamp_ms is None:
            self._find_max_timestamp()

    def write(self, pieces: Sequence[Buffer]) -> None:
        """Append bytes to the file; OSError leaves the segment as it was. `note` must follow for each batch."""
        self.file.append(pieces)

    def write_abort(self, pieces: Sequence[Buffer], aborted: AbortedTransaction) -> None:
        """Append the marker of an aborted transaction. Its index entry comes first; without the marker it is removed again.

        TornWrite if not even that is possible: only recovery can then make the two agree.
        """
        self.transaction_index.append(aborted)
        try:
            self.write(pieces)
        except OSError as error:
            try:
                self.transaction_index.remove_last()
            except OSError as failure:
                raise TornWrite(f"{self.transaction_index.path} has an abort without its marker: {failure}") from error
            raise

    def note(self, header_size: int, last_offset: int, max_timestamp_ms: int, index_interval_bytes: int) -> None:
        """Count a batch that is in the file. The segment is new or prepared: nothing here touches the disk."""
        assert self._max_timestamp_ms is not None
        if max_timestamp_ms > self._max_timestamp_ms:
            self._max_timestamp_ms = max_timestamp_ms
            self._offset_of_max_timestamp = last_offset
        if self._first_timestamp_ms is None and self.size == 0:
            self._first_timestamp_ms = max_timestamp_ms
        if self._bytes_since_index_entry > index_interval_bytes:
            self.offset_index.append(last_offset - self.base_offset, self.size)
            self._index_time()
            self._bytes_since_index_entry = 0
        self._bytes_since_index_entry += header_size
        self.size += header_size

    def find(self, offset: int) -> LocatedBatch | None:
        """The first batch whose last offset is `offset` or more."""
        for located in scan_headers(self.file, self._start_for(offset), self.size):
            if located.header.last_offset >= offset:
                return located
        return None

    def scan_from_timestamp(self, timestamp_ms: int, start_offset: int) -> Iterator[LocatedBatch]:
        """Batches in order, from shortly before the first from `start_offset` on that may have `timestamp_ms` or later."""
        entry = self.time_index.floor(timestamp_ms - 1)
        offset = max(start_offset, self.base_offset + (entry[1] if entry else 0))
        return scan_headers(self.file, self._start_for(offset), self.size)

    def last_batch(self) -> BatchHeader | None:
        """The header of the last batch, found from the last index entry."""
        entry = self.offset_index.last()
        last: BatchHeader | None = None
        for located in scan_headers(self.file, entry[1] if entry else 0, self.size):
            last = located.header
        return last

    def seal(self) -> list[File]:
        """Finish and write the indexes; the files that are now unsynced. May be repeated after a failure."""
        if self.size:
            self.prepare()
            self._index_time()
        return [file for index in (self.offset_index, self.time_index) if (file := index.flush()) is not None]

    def release(self) -> None:
        """Free the memory of a segment that no longer grows."""
        self.offset_index.unload()
        self.time_index.unload()

    def truncate(self, position: int, offset: int) -> None:
        """Cut the file at `position`, and the index entries for `offset` and later."""
        self.offset_index.truncate_keys(offset - self.base_offset)
        self.time_index.truncate_values(offset - self.base_offset)
        self.transaction_index.truncate(offset)
        self.file.truncate(position)
        self.size = position
        self._bytes_since_index_entry = 0
        self._max_timestamp_ms = None if position else NO_TIMESTAMP
        self._offset_of_max_timestamp = self.base_offset
        if not position:
            self._first_timestamp_ms = None

    def rebuild_indexes(self, index_interval_bytes: int) -> None:
        """Rebuild the indexes of a segment whose batches are trusted."""
        batches = [located.header for located in scan_headers(self.file, 0, self.size)]
        self._forget()
        for header in batches:
            self.note(header.size, header.last_offset, header.max_timestamp_ms, index_interval_bytes)
        self.seal()

    def reset(self) -> None:
        """Forget the content, so that a scan can count it again from the first batch."""
        self._forget()
        self.transaction_index.clear()

    def _forget(self) -> None:
        self.offset_index.clear()
        self.time_index.clear()
        self.size = 0
        self._bytes_since_index_entry = 0
        self._max_timestamp_ms = NO_TIMESTAMP
        self._offset_of_max_timestamp = self.base_offset
        self._first_timestamp_ms = None

    def end_ranges(self) -> None:
        """Make readers that have located bytes in the file locate them again: other bytes may take their place."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def close(self) -> None:
        """Close the files for good: other segments may get their names."""
        self.is_closed = True
        self.end_ranges()
        self.offset_index.close()
        self.time_index.close()
        self.transaction_index.close()

    def _start_for(self, offset: int) -> int:
        entry = self.offset_index.floor(offset - self.base_offset)
        return entry[1] if entry else 0

    def _index_time(self) -> None:
        """Kafka's time index grows only by larger timestamps, which keeps both its columns in order."""
        last = self.time_index.last()
        if self.max_timestamp_ms > (last[0] if last else NO_TIMESTAMP):
            self.time_index.append(self.max_timestamp_ms, self._offset_of_max_timestamp - self.base_offset)

    def _find_max_timestamp(self) -> None:
        """The time index has it up to its last entry; the batches after the last offset entry give the rest."""
        last = self.time_index.last()
        largest, offset = (last[0], self.base_offset + last[1]) if last else (NO_TIMESTAMP, self.base_offset)
        entry = self.offset_index.last()
        for located in scan_headers(self.file, entry[1] if entry else 0, self.size):
            if located.header.max_timestamp_ms > largest:
                largest, offset = located.header.max_timestamp_ms, located.header.last_offset
        self._max_timestamp_ms, self._offset_of_max_timestamp = largest, offset
