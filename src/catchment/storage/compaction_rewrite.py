"""The work of compaction: read segments that no longer change, write what is left of them beside them.

It goes in steps, so that whoever runs it decides what happens in between: a process of its own checks that its broker is
still there, an event loop serves others. Nothing here touches a file that the log uses, and an old segment is on the device
before its successor is done: whatever a crash leaves, it is one or the other.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

from typing_extensions import Buffer

from catchment.ports.disk import Disk
from catchment.protocol.batch import BatchHeader, CorruptBatch, crc_matches, read_header
from catchment.protocol.records import read_records
from catchment.storage import layout
from catchment.storage.batch_scan import scan_headers
from catchment.storage.compaction import CleanedSegment, CompactionJob, CompactionResult, SourceSegment
from catchment.storage.compaction_filter import BatchFilter
from catchment.storage.compaction_keys import LastOffsets
from catchment.storage.compaction_transactions import TransactionOutcomes
from catchment.storage.segment import Segment
from catchment.storage.validation import MOST_UNCOMPRESSED_BYTES

_WRITE_BYTES = 1 << 20


class SegmentGone(Exception):
    """A segment is no longer what the job says: the log has changed, and the job is void."""


class _Target(Segment):
    """The segment that a group becomes, under names that a start after a crash throws away."""

    __slots__ = ()

    def path(self, suffix: str) -> str:
        return super().path(suffix) + layout.CLEANED


class _Found(NamedTuple):
    header: BatchHeader
    data: memoryview
    is_last: bool
    """Whether the segment ends with it."""


class _Written(NamedTuple):
    header: BatchHeader
    data: Buffer


def rewrite(disk: Disk, job: CompactionJob) -> Generator[None, None, CompactionResult]:
    """Write a `.cleaned` segment for each group, durably. Whatever it raises, the caller removes what it wrote."""
    # Beside a stale `.cleaned` file, a start would take a swap that a crash has interrupted for one that never began.
    discard(disk, job)
    last_offsets = LastOffsets(job.most_keys)
    yield from _collect(disk, job, last_offsets)
    batch_filter = BatchFilter(job, last_offsets)
    cleaned = []
    for group in job.groups:
        if group[0].base_offset >= last_offsets.end_offset:
            break
        cleaned.append((yield from _clean_group(disk, job, group, batch_filter)))
    disk.sync_directory(job.directory)
    return CompactionResult(last_offsets.end_offset, tuple(cleaned))


def discard(disk: Disk, job: CompactionJob) -> None:
    """Remove what this job or one before it has written and nobody wants any more."""
    for entry in disk.list_directory(job.directory):
        if entry.name.endswith(layout.CLEANED):
            disk.remove_file(f"{job.directory}/{entry.name}")


def _collect(disk: Disk, job: CompactionJob, last_offsets: LastOffsets) -> Generator[None, None, None]:
    """Learn the last offset of each key, up to where the map is full."""
    transactions = TransactionOutcomes(job.aborted)
    for source in (source for group in job.groups for source in group):
        if source.end_offset <= job.first_dirty_offset:
            continue
        for batch in _scan(disk, job, source):
            header = batch.header
            if header.last_offset < job.first_dirty_offset:
                continue
            if last_offsets.is_full:
                return
            if not header.is_control and not transactions.is_aborted(header):
                for record in read_records(batch.data, MOST_UNCOMPRESSED_BYTES):
                    if record.key is not None:
                        last_offsets.put(record.key, header.base_offset + record.offset_delta)
            last_offsets.end_offset = header.next_offset
            yield
        last_offsets.end_offset = source.end_offset


def _clean_group(
    disk: Disk, job: CompactionJob, group: tuple[SourceSegment, ...], batch_filter: BatchFilter
) -> Generator[None, None, CleanedSegment]:
    target = _Target(disk, job.directory, group[0].base_offset, job.now_ms, None)
    last_source = next((source for source in reversed(group) if source.size), None)
    waiting: list[_Written] = []
    waiting_bytes = 0
    for source in group:
        for batch in _scan(disk, job, source):
            # The last batch of a group keeps its place: no gap opens between segments, and a swap that a crash has
            # interrupted can be told to cover all the segments that it replaces.
            is_last = source is last_source and batch.is_last
            data = batch_filter.remaining(batch.data, batch.header, must_stay=is_last)
            if data is not None:
                waiting.append(_Written(read_header(data), data))
                waiting_bytes += waiting[-1].header.size
            if waiting_bytes >= _WRITE_BYTES:
                _write(target, waiting, job)
                waiting, waiting_bytes = [], 0
            yield
    _write(target, waiting, job)
    for aborted in batch_filter.kept_aborts:
        target.transaction_index.append(aborted)
    batch_filter.kept_aborts.clear()
    _sync_sources(disk, job, group)
    return _finish(disk, target)


def _write(target: _Target, batches: list[_Written], job: CompactionJob) -> None:
    if not batches:
        return
    target.write([data for _, data in batches])
    for header, _ in batches:
        target.note(header.size, header.last_offset, header.max_timestamp_ms, job.index_interval_bytes)


def _finish(disk: Disk, target: _Target) -> CleanedSegment:
    """All four files are there from now on, empty or not: so a swap replaces each file of the old segment."""
    target.seal()
    target.close()
    sizes = {}
    for suffix in layout.SEGMENT_SUFFIXES:
        file = disk.open_file(target.path(suffix))
        file.sync()
        sizes[suffix] = file.size
        file.close()
    return CleanedSegment(target.base_offset, sizes)


def _sync_sources(disk: Disk, job: CompactionJob, group: tuple[SourceSegment, ...]) -> None:
    """The log may still have these on its list of files to sync, from which the swap takes them."""
    for source in group:
        for suffix in layout.SEGMENT_SUFFIXES:
            path = _path(job, source, suffix)
            if disk.exists(path):
                file = disk.open_file(path)
                file.sync()
                file.close()


def _scan(disk: Disk, job: CompactionJob, source: SourceSegment) -> Iterator[_Found]:
    path = _path(job, source, layout.LOG)
    if not disk.exists(path):
        raise SegmentGone(f"{path} is gone")
    file = disk.open_file(path)
    try:
        if file.size < source.size:
            raise SegmentGone(f"{path} has {file.size} bytes, not {source.size}")
        end = 0
        for position, header in scan_headers(file, 0, source.size):
            data = memoryview(file.read(position, header.size))
            if data.nbytes != header.size or not crc_matches(data, header):
                raise CorruptBatch(f"the batch at position {position} of {path} is damaged")
            end = position + header.size
            yield _Found(header, data, is_last=end == source.size)
        if end != source.size:
            raise CorruptBatch(f"no whole batch at position {end} of {path}")
    finally:
        file.close()


def _path(job: CompactionJob, source: SourceSegment, suffix: str) -> str:
    return f"{job.directory}/{layout.file_name(source.base_offset, suffix)}"
