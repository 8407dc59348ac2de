"""The work of compaction: read segments that no longer change, and write cleaned ones beside them.

It runs in steps, and the caller decides what happens in between: a process of its own checks that its broker is still there, an
event loop serves requests. Nothing here touches a file that the log uses, and an old segment is on the device before its
successor is done: whatever a crash leaves, it is one or the other.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator
from typing import NamedTuple

from typing_extensions import Buffer

from catchment.ports.disk import Disk
from catchment.protocol.batch import BatchHeader, CorruptBatch, crc_matches, read_header
from catchment.protocol.records import read_records
from catchment.storage import layout
from catchment.storage.compaction.filter import BatchFilter, OffsetMap, TransactionOutcomes
from catchment.storage.compaction.plan import CleanedSegment, CompactionJob, CompactionResult, SourceSegment
from catchment.storage.segments.batch_scan import scan_headers
from catchment.storage.segments.segment import LogSegment
from catchment.storage.validation import MOST_UNCOMPRESSED_BYTES

_WRITE_BYTES = 1 << 20


class SegmentGone(Exception):
    """A segment is not as it was when the job was planned: the log has changed, and the job is void."""


class _Target(LogSegment):
    """The segment that a group becomes, under names that a start after a crash removes."""

    __slots__ = ()

    def path(self, suffix: str) -> str:
        return super().path(suffix) + layout.CLEANED


class _Found(NamedTuple):
    header: BatchHeader
    data: memoryview
    is_last: bool
    """Whether it is the last of the segment."""


class _Written(NamedTuple):
    header: BatchHeader
    data: Buffer


def rewrite(disk: Disk, job: CompactionJob) -> Generator[None, None, CompactionResult]:
    """Write a `.cleaned` segment for each group, durably. If it raises, the caller removes the files with `discard`."""
    # With a stale `.cleaned` file beside it, a swap that a crash interrupts would look like one that never began.
    discard(disk, job)
    offset_map = OffsetMap(job.most_keys)
    yield from _collect(disk, job, offset_map)
    batch_filter = BatchFilter(job, offset_map)
    cleaned = []
    for group in job.groups:
        if group[0].base_offset >= offset_map.end_offset:
            break
        cleaned.append((yield from _clean_group(disk, job, group, batch_filter)))
    disk.sync_directory(job.directory)
    return CompactionResult(offset_map.end_offset, tuple(cleaned))


def discard(disk: Disk, job: CompactionJob) -> None:
    """Remove the files that this job or one before it has written and that no log will use."""
    for entry in disk.list_directory(job.directory):
        if entry.name.endswith(layout.CLEANED):
            disk.remove_file(f"{job.directory}/{entry.name}")


def _collect(disk: Disk, job: CompactionJob, offset_map: OffsetMap) -> Generator[None, None, None]:
    """Find the last offset of each key, until the map is full."""
    transactions = TransactionOutcomes(job.aborted)
    for source in (source for group in job.groups for source in group):
        if source.end_offset <= job.first_dirty_offset:
            continue
        for batch in _scan(disk, job, source):
            header = batch.header
            if header.last_offset < job.first_dirty_offset:
                continue
            if offset_map.is_full:
                return
            if not header.is_control and not transactions.is_aborted(header):
                for record in read_records(batch.data, MOST_UNCOMPRESSED_BYTES):
                    if record.key is not None:
                        offset_map.put(record.key, header.base_offset + record.offset_delta)
            offset_map.end_offset = header.next_offset
            yield
        offset_map.end_offset = source.end_offset


def _clean_group(
    disk: Disk, job: CompactionJob, group: tuple[SourceSegment, ...], batch_filter: BatchFilter
) -> Generator[None, None, CleanedSegment]:
    target = _Target(disk, job.directory, group[0].base_offset, job.now_ms, None)
    last_source = next((source for source in reversed(group) if source.size), None)
    pending: list[_Written] = []
    pending_bytes = 0
    for source in group:
        for batch in _scan(disk, job, source):
            # The last batch of a group keeps its offsets: no gap opens between segments, and a start that finishes an
            # interrupted swap can see which segments it replaces.
            is_last = source is last_source and batch.is_last
            data = batch_filter.remaining(batch.data, batch.header, must_stay=is_last)
            if data is not None:
                pending.append(_Written(read_header(data), data))
                pending_bytes += pending[-1].header.size
            if pending_bytes >= _WRITE_BYTES:
                _write(target, pending, job)
                pending, pending_bytes = [], 0
            yield
    _write(target, pending, job)
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
    """Create all four files, empty or not, so that a swap replaces each file of the old segment."""
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
    """The log may have these among its unsynced files, from which the swap removes them."""
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
