"""Find the first record at or after a timestamp, in steps between which the event loop may do other work.

The search itself runs in the log's thread. It yields to its caller for the two things that may take long: to open a batch, which
any thread can do, and to pause after so many headers or segments. The log may change meanwhile, so the search keeps only offsets
across a step, and locates a file that has left the log again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, NamedTuple

from catchment.ports.disk import File, StaleFile
from catchment.protocol.batch import BatchHeader
from catchment.protocol.compression import Compression
from catchment.protocol.records import read_times
from catchment.storage.segments.batch_scan import LocatedBatch
from catchment.storage.segments.segment import LogSegment
from catchment.storage.segments.segment_list import LogSegments
from catchment.storage.validation import CHEAP_TO_OPEN_BYTES, MOST_UNCOMPRESSED_BYTES, no_pause

_RECORDS_BETWEEN_PAUSES: Final = 256
_HEADERS_A_STEP: Final = 512
_SEGMENTS_A_STEP: Final = 16
_MOST_RESTARTS: Final = 10


class TimestampedOffset(NamedTuple):
    timestamp_ms: int
    offset: int
    leader_epoch: int


class BatchToOpen(NamedTuple):
    """A batch that should hold the record: the caller of the search reads it, calls `find`, and sends the result."""

    file: File
    position: int
    header: BatchHeader
    timestamp_ms: int
    start_offset: int

    @property
    def is_costly(self) -> bool:
        return self.header.size > CHEAP_TO_OPEN_BYTES or self.header.compression != Compression.NONE

    def find(self, data: bytes, pause: Callable[[], None]) -> TimestampedOffset | None:
        """Find the record in the bytes of the batch, in any thread; CorruptBatch if they are not one."""
        header = self.header
        least_ms, least_offset = self.timestamp_ms - header.base_timestamp_ms, self.start_offset - header.base_offset
        for index, (delta_ms, offset_delta) in enumerate(read_times(data, MOST_UNCOMPRESSED_BYTES), 1):
            if delta_ms >= least_ms and offset_delta >= least_offset:
                found_ms, offset = header.base_timestamp_ms + delta_ms, header.base_offset + offset_delta
                return TimestampedOffset(found_ms, offset, header.leader_epoch)
            if not index % _RECORDS_BETWEEN_PAUSES:
                pause()
        return None


Step = BatchToOpen | None
"""What a search yields: a batch to open, or None for a pause."""
TimeSearch = Generator[Step, TimestampedOffset | None, TimestampedOffset | None]


def search(segments: LogSegments, timestamp_ms: int, start_offset: int) -> TimeSearch:
    """The first record from `start_offset` on whose timestamp is `timestamp_ms` or later."""
    cursor = start_offset
    scanned = restarts = 0
    while True:
        segment = segments[segments.index_of(cursor)]
        try:
            located = None
            if segment.max_timestamp_ms >= timestamp_ms:
                located = yield from _find_batch(segment, timestamp_ms, start_offset)
            if located is not None:
                found = yield from _open_batch(segment, located, timestamp_ms, start_offset)
                if found is not None:
                    return found
                start_offset = cursor = located.header.next_offset
                continue
        except StaleFile:
            restarts += 1
            if restarts > _MOST_RESTARTS:
                raise
            continue
        next_base = segments.next_base(segments.index_of(cursor))
        if next_base is None:
            return None
        cursor = next_base
        scanned += 1
        if not scanned % _SEGMENTS_A_STEP:
            yield None


def search_largest(segments: LogSegments, start_offset: int) -> TimeSearch:
    """The first record that has the largest timestamp in the log."""
    largest_ms: int | None = None
    for scanned, segment in enumerate(segments.since(start_offset), 1):
        if segment.size and (largest_ms is None or segment.max_timestamp_ms > largest_ms):
            largest_ms = segment.max_timestamp_ms
        if not scanned % _SEGMENTS_A_STEP:
            yield None
    return None if largest_ms is None else (yield from search(segments, largest_ms, start_offset))


def _find_batch(
    segment: LogSegment, timestamp_ms: int, start_offset: int
) -> Generator[Step, TimestampedOffset | None, LocatedBatch | None]:
    for scanned, located in enumerate(segment.scan_from_timestamp(timestamp_ms, start_offset), 1):
        if located.header.max_timestamp_ms >= timestamp_ms and located.header.last_offset >= start_offset:
            return located
        if not scanned % _HEADERS_A_STEP:
            yield None
    return None


def _open_batch(
    segment: LogSegment, located: LocatedBatch, timestamp_ms: int, start_offset: int
) -> Generator[Step, TimestampedOffset | None, TimestampedOffset | None]:
    header = located.header
    if header.is_log_append_time:
        return TimestampedOffset(header.max_timestamp_ms, max(header.base_offset, start_offset), header.leader_epoch)
    batch = BatchToOpen(segment.file, located.position, header, timestamp_ms, start_offset)
    if batch.is_costly:
        return (yield batch)
    return batch.find(segment.file.read(located.position, header.size), no_pause)


def run_now(steps: TimeSearch) -> TimestampedOffset | None:
    """Run a search to its end without a pause."""
    try:
        step = next(steps)
        while True:
            try:
                found = None if step is None else step.find(step.file.read(step.position, step.header.size), no_pause)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(found)
    except StopIteration as end:
        result: TimestampedOffset | None = end.value
        return result
