"""Find where bytes lie by offset, and where reading must stop.

A lookup costs a search among segments, a search in one sparse index, and a walk over the headers of one index interval.
Readers at the end of the log, the common ones, ask for offsets where a recent batch began or ended. Those few are kept in
memory, so that neither these readers nor the position of the high watermark cost a read.
"""

from __future__ import annotations

import struct
from types import TracebackType
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.ports.disk import File
from catchment.protocol.batch import LOG_OVERHEAD, CorruptBatch, partial_size
from catchment.protocol.errors import ApiError
from catchment.storage.segments.segment import LogSegment
from catchment.storage.segments.segment_list import LogSegments

_BOUNDARIES_KEPT = 64


class FileRange(NamedTuple):
    """Whole batches in a file, though the last may be cut short.

    Once compaction, retention or a truncation has changed the file, it is closed, and reading it raises StaleFile: the range
    must be located again.
    """

    file: File
    position: int
    size: int


class Lookup:
    __slots__ = ("_boundaries", "_segments")

    def __init__(self, segments: LogSegments) -> None:
        self._segments = segments
        self._boundaries: dict[int, int] = {}

    def note_boundary(self, offset: int, position: int) -> None:
        """In the active segment, the batch with `offset` begins at `position`, or will."""
        if len(self._boundaries) >= _BOUNDARIES_KEPT:
            self._boundaries.clear()
        self._boundaries[offset] = position

    def forget_boundaries(self) -> None:
        """The active segment is another one, or was cut."""
        self._boundaries.clear()

    def locate(
        self, offset: int, max_bytes: int, upper_offset: int, log_end_offset: int, *, at_least_one_batch: bool
    ) -> FileRange | None:
        segments = self._segments
        for index in range(segments.index_of(offset), len(segments)):
            segment = segments[index]
            next_base = segments.next_base(index)
            is_active = next_base is None
            position = self._position(segment, offset, is_active=is_active)
            if position is None:
                # Compaction may have removed the end of a segment: the next one continues.
                continue
            if upper_offset >= (log_end_offset if next_base is None else next_base):
                end = segment.size
            else:
                end = self._end(segment, upper_offset, is_active=is_active)
            return _range(segment, position, end, max_bytes, at_least_one_batch=at_least_one_batch)
        return None

    def end_of(self, found: FileRange, start_offset: int, upper_offset: int) -> int:
        """An offset behind all batches in a range that `locate` found, but not far behind."""
        segments = self._segments
        for index in range(segments.index_of(start_offset), len(segments)):
            segment = segments[index]
            if segment.file is found.file:
                entry = segment.offset_index.ceiling_of_value(found.position + found.size)
                next_base = segments.next_base(index) if entry is None else segment.base_offset + entry[0]
                return upper_offset if next_base is None else min(next_base, upper_offset)
        return upper_offset

    def _end(self, segment: LogSegment, upper_offset: int, *, is_active: bool) -> int:
        """Where the batches below `upper_offset` end. What follows is not read: an offline log may have lost it."""
        known = self._boundaries.get(upper_offset) if is_active else None
        if known is not None:
            return known
        located = segment.find(upper_offset - 1)
        if located is None:
            return segment.size
        position, header = located
        end = position + header.size if header.last_offset < upper_offset else position
        if is_active:
            self.note_boundary(upper_offset, end)
        return end

    def _position(self, segment: LogSegment, offset: int, *, is_active: bool) -> int | None:
        """Where the first batch begins whose last offset is `offset` or more; None if the segment has none."""
        if is_active:
            position = self._boundaries.get(offset)
            if position is not None:
                return position
        elif offset <= segment.base_offset and segment.size:
            return 0
        try:
            located = segment.find(offset)
        except CorruptBatch as error:
            raise ApiError(ErrorCode.corrupt_message, str(error)) from error
        if located is None:
            return None
        if is_active:
            self.note_boundary(offset, located.position)
        return located.position


def _range(
    segment: LogSegment, position: int, end: int, max_bytes: int, *, at_least_one_batch: bool
) -> FileRange | None:
    size = end - position
    if size <= 0:
        return None
    file = segment.file
    if max_bytes < size:
        size = max(max_bytes, 0)
        if at_least_one_batch:
            # KIP-74: a batch larger than the limit is still returned, or its reader would be stuck for ever.
            size = max(size, partial_size(file.read(position, LOG_OVERHEAD)))
        if size == 0:
            return None
    return FileRange(file, position, size)


class ReadErrors:
    """A context around reads of a log's files: disk errors, and bytes that are no batch, leave it as an ApiError."""

    __slots__ = ("_name",)

    def __init__(self, topic: str, partition: int) -> None:
        self._name = f"{topic}-{partition}"

    def __enter__(self) -> None:
        """Nothing is held: one object serves all readers, also at the same time."""

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if isinstance(error, OSError):
            raise ApiError(ErrorCode.kafka_storage_error, f"{self._name} cannot be read: {error}") from error
        if isinstance(error, CorruptBatch | struct.error):
            raise ApiError(ErrorCode.corrupt_message, f"{self._name} is damaged: {error}") from error
