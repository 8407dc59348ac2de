"""Find the first record that is as late as a timestamp, in steps between which the event loop may do other work.

The search itself belongs to the log's thread. It asks its driver for the two things that may take long: to look into a batch,
which any thread can do, and to come back later, after so many headers or segments. The log may change meanwhile, so nothing
of it is kept across a step but offsets; a file that has left the log is searched for again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Final, NamedTuple

from catchment.ports.disk import File, StaleFile
from catchment.protocol.batch import BatchHeader
from catchment.protocol.compression import Compression
from catchment.protocol.records import read_times
from catchment.storage.segments.batch_scan import PlacedBatch
from catchment.storage.segments.segment import LogSegment
from catchment.storage.segments.segment_list import LogSegments
from catchment.storage.validation import MOST_UNCOMPRESSED_BYTES

_CHEAP_TO_OPEN_BYTES: Final = 8 * 1024
_RECORDS_BETWEEN_PAUSES: Final = 256
_HEADERS_A_STEP: Final = 512
_SEGMENTS_A_STEP: Final = 16
_MOST_RESTARTS: Final = 10


class TimestampedOffset(NamedTuple):
    timestamp_ms: int
    offset: int
    leader_epoch: int


class BatchToOpen(NamedTuple):
    """A batch that should hold the record: the caller of the search reads it, looks into it, and sends what was found."""

    file: File
    position: int
    header: BatchHeader
    timestamp_ms: int
    start_offset: int

    @property
    def is_costly(self) -> bool:
        return self.header.size > _CHEAP_TO_OPEN_BYTES or self.header.compression != Compression.NONE

    def find(self, data: bytes, pause: Callable[[], None]) -> TimestampedOffset | None:
        """The record in the bytes of the batch, in any thread; CorruptBatch if they are none."""
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
"""What a search asks for: a batch to be opened, or only to be resumed."""
TimeSearch = Generator[Step, TimestampedOffset | None, TimestampedOffset | None]


def search(segments: LogSegments, timestamp_ms: int, start_offset: int) -> TimeSearch:
    """The first record from `start_offset` on whose timestamp is `timestamp_ms` or later."""
    cursor = start_offset
    looked_at = restarts = 0
    while True:
        segment = segments[segments.index_of(cursor)]
        try:
            placed = None
            if segment.max_timestamp_ms >= timestamp_ms:
                placed = yield from _find_batch(segment, timestamp_ms, start_offset)
            if placed is not None:
                found = yield from _look_into(segment, placed, timestamp_ms, start_offset)
                if found is not None:
                    return found
                start_offset = cursor = placed.header.next_offset
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
        looked_at += 1
        if not looked_at % _SEGMENTS_A_STEP:
            yield None


def search_largest(segments: LogSegments, start_offset: int) -> TimeSearch:
    """The first record that has the largest timestamp in the log."""
    largest_ms: int | None = None
    for looked_at, segment in enumerate(segments.since(start_offset), 1):
        if segment.size and (largest_ms is None or segment.max_timestamp_ms > largest_ms):
            largest_ms = segment.max_timestamp_ms
        if not looked_at % _SEGMENTS_A_STEP:
            yield None
    return None if largest_ms is None else (yield from search(segments, largest_ms, start_offset))


def _find_batch(
    segment: LogSegment, timestamp_ms: int, start_offset: int
) -> Generator[Step, TimestampedOffset | None, PlacedBatch | None]:
    for looked_at, placed in enumerate(segment.scan_from_timestamp(timestamp_ms, start_offset), 1):
        if placed.header.max_timestamp_ms >= timestamp_ms and placed.header.last_offset >= start_offset:
            return placed
        if not looked_at % _HEADERS_A_STEP:
            yield None
    return None


def _look_into(
    segment: LogSegment, placed: PlacedBatch, timestamp_ms: int, start_offset: int
) -> Generator[Step, TimestampedOffset | None, TimestampedOffset | None]:
    header = placed.header
    if header.is_log_append_time:
        return TimestampedOffset(header.max_timestamp_ms, max(header.base_offset, start_offset), header.leader_epoch)
    batch = BatchToOpen(segment.file, placed.position, header, timestamp_ms, start_offset)
    if batch.is_costly:
        return (yield batch)
    return batch.find(segment.file.read(placed.position, header.size), _go_on)


def run_now(steps: TimeSearch) -> TimestampedOffset | None:
    """The result of a search whose caller can wait."""
    try:
        step = next(steps)
        while True:
            try:
                found = None if step is None else step.find(step.file.read(step.position, step.header.size), _go_on)
            except Exception as error:
                step = steps.throw(error)
            else:
                step = steps.send(found)
    except StopIteration as end:
        result: TimestampedOffset | None = end.value
        return result


def _go_on() -> None:
    return
