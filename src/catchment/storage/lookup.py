"""Find where bytes lie: by offset, by timestamp, and where reading must stop.

A lookup costs a search among segments, a search in one sparse index, and a walk over the headers of one index interval.
Readers at the end of the log, the common ones, ask for offsets where a recent batch began or ended: those few are kept in
memory, so that neither they nor the high watermark's place cost a read.
"""

from __future__ import annotations

from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.ports.disk import File
from catchment.protocol.batch import LOG_OVERHEAD, BatchHeader, CorruptBatch, partial_size
from catchment.protocol.errors import ApiError
from catchment.protocol.records import read_times
from catchment.storage.segment import Segment
from catchment.storage.segments import Segments
from catchment.storage.validation import MOST_UNCOMPRESSED_BYTES

_BOUNDARIES_KEPT = 64


class FileRange(NamedTuple):
    """Whole batches in a file, though the last may be cut short. Use it before the log is changed again."""

    file: File
    position: int
    size: int


class TimestampedOffset(NamedTuple):
    timestamp_ms: int
    offset: int
    leader_epoch: int


class Lookup:
    __slots__ = ("_boundaries", "_segments")

    def __init__(self, segments: Segments) -> None:
        self._segments = segments
        self._boundaries: dict[int, int] = {}

    def note_boundary(self, offset: int, position: int) -> None:
        """In the active segment, the batch with `offset` begins at `position`, or will."""
        if len(self._boundaries) >= _BOUNDARIES_KEPT:
            self._boundaries.clear()
        self._boundaries[offset] = position

    def forget_boundaries(self) -> None:
        """The active segment has changed."""
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
                # Compaction may have taken the end of a segment: the next one goes on.
                continue
            if upper_offset >= (log_end_offset if next_base is None else next_base):
                end = segment.size
            else:
                bound = self._position(segment, upper_offset, is_active=is_active)
                end = segment.size if bound is None else bound
            return _range(segment, position, end, max_bytes, at_least_one_batch=at_least_one_batch)
        return None

    def end_of(self, found: FileRange, start_offset: int, upper_offset: int) -> int:
        """An offset behind all that lies in a range that `locate` found, but not far behind."""
        segments = self._segments
        for index in range(segments.index_of(start_offset), len(segments)):
            segment = segments[index]
            if segment.file is found.file:
                entry = segment.offset_index.ceiling_of_value(found.position + found.size)
                next_base = segments.next_base(index) if entry is None else segment.base_offset + entry[0]
                return upper_offset if next_base is None else min(next_base, upper_offset)
        return upper_offset

    def by_timestamp(self, timestamp_ms: int, start_offset: int) -> TimestampedOffset | None:
        """The first record from `start_offset` on whose timestamp is `timestamp_ms` or later."""
        for segment in self._segments.since(start_offset):
            if segment.max_timestamp_ms < timestamp_ms:
                continue
            placed = segment.find_timestamp(timestamp_ms, start_offset)
            while placed is not None:
                found = _first_since(segment, placed.position, placed.header, timestamp_ms, start_offset)
                if found is not None:
                    return found
                start_offset = placed.header.next_offset
                placed = segment.find_timestamp(timestamp_ms, start_offset)
        return None

    def of_max_timestamp(self, start_offset: int) -> TimestampedOffset | None:
        """The first record that has the largest timestamp in the log."""
        candidates = [segment for segment in self._segments.since(start_offset) if segment.size]
        if not candidates:
            return None
        latest = max(candidates, key=lambda segment: segment.max_timestamp_ms)
        return self.by_timestamp(latest.max_timestamp_ms, start_offset)

    def _position(self, segment: Segment, offset: int, *, is_active: bool) -> int | None:
        """Where the first batch begins whose last offset is `offset` or more; None if the segment has none."""
        if is_active:
            position = self._boundaries.get(offset)
            if position is not None:
                return position
        elif offset <= segment.base_offset and segment.size:
            return 0
        try:
            placed = segment.find(offset)
        except CorruptBatch as error:
            raise ApiError(ErrorCode.corrupt_message, str(error)) from error
        if placed is None:
            return None
        if is_active:
            self.note_boundary(offset, placed.position)
        return placed.position


def _range(segment: Segment, position: int, end: int, max_bytes: int, *, at_least_one_batch: bool) -> FileRange | None:
    size = end - position
    if size <= 0:
        return None
    file = segment.file
    if max_bytes < size:
        size = max(max_bytes, 0)
        if at_least_one_batch:
            # KIP-74: a batch larger than the limit is still handed out, or its reader would be stuck for ever.
            size = max(size, partial_size(file.read(position, LOG_OVERHEAD)))
        if size == 0:
            return None
    return FileRange(file, position, size)


def _first_since(
    segment: Segment, position: int, header: BatchHeader, timestamp_ms: int, start_offset: int
) -> TimestampedOffset | None:
    if header.is_log_append_time:
        return TimestampedOffset(header.max_timestamp_ms, max(header.base_offset, start_offset), header.leader_epoch)
    try:
        least_ms, least_offset = timestamp_ms - header.base_timestamp_ms, start_offset - header.base_offset
        for delta_ms, offset_delta in read_times(segment.file.read(position, header.size), MOST_UNCOMPRESSED_BYTES):
            if delta_ms >= least_ms and offset_delta >= least_offset:
                found_ms, offset = header.base_timestamp_ms + delta_ms, header.base_offset + offset_delta
                return TimestampedOffset(found_ms, offset, header.leader_epoch)
    except CorruptBatch as error:
        raise ApiError(ErrorCode.corrupt_message, str(error)) from error
    return None
