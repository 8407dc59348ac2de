"""What compaction may clean, whether it is worth it, and the job for the worker that does it.

A log is clean up to the offset that the last cleaning reached. What follows is dirty, and may be cleaned up to the active
segment, the last stable offset, and the first segment younger than `min.compaction.lag.ms`. Whole segments are cleaned, the
clean ones again too: an old value goes because of a newer one behind it.

Nothing here changes a log. `Log.replace_segments` swaps in what the job produced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from catchment.storage.config import LogConfig
from catchment.storage.segments.index import TIME_ENTRY, AbortedTransaction
from catchment.storage.segments.segment import LARGEST_RELATIVE_OFFSET, LogSegment

if TYPE_CHECKING:
    from catchment.storage.log import Log


class DirtySection(NamedTuple):
    """The dirty part of a log, from its first offset to the base of the first segment that must stay as it is."""

    first_offset: int
    end_offset: int
    clean_bytes: int
    dirty_bytes: int
    is_overdue: bool

    @property
    def dirty_ratio(self) -> float:
        return self.dirty_bytes / (self.clean_bytes + self.dirty_bytes) if self.dirty_bytes else 0.0

    def is_due(self, config: LogConfig) -> bool:
        """Whether it is worth the work, or `max.compaction.lag.ms` requires it."""
        return self.dirty_bytes > 0 and (self.is_overdue or self.dirty_ratio >= config.min_cleanable_dirty_ratio)


class SourceSegment(NamedTuple):
    base_offset: int
    size: int
    end_offset: int
    """The base of the segment that follows."""


class LastOfProducer(NamedTuple):
    """Which batch holds the state of a producer: that of its last record, or else any marker of its epoch."""

    last_offset: int | None
    epoch: int


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """All that the rewrite needs of a log, without the log itself: it may run in another process."""

    directory: str
    groups: tuple[tuple[SourceSegment, ...], ...]
    """Segments in order; each group becomes one segment."""
    first_dirty_offset: int
    aborted: tuple[AbortedTransaction, ...]
    producers: dict[int, LastOfProducer]
    delete_retention_ms: int
    index_interval_bytes: int
    now_ms: int
    most_keys: int
    truncations: int
    """Of the log when the job was planned: a segment that was cut and written again may have its old size."""


class CleanedSegment(NamedTuple):
    """What a group has become: files that are ready to be swapped in, with their sizes by suffix."""

    base_offset: int
    sizes: dict[str, int]


class CompactionResult(NamedTuple):
    end_offset: int
    """The log is clean up to here once every segment has been swapped in."""
    cleaned: tuple[CleanedSegment, ...]


def find_dirty_section(log: Log, clean_offset: int | None, last_stable_offset: int, now_ms: int) -> DirtySection:
    """The dirty part of a log that was last cleaned up to `clean_offset`."""
    segments = log.segments
    if clean_offset is None or not log.log_start_offset <= clean_offset <= log.log_end_offset:
        clean_offset = log.log_start_offset
    inactive = list(segments)[:-1]
    first_dirty = segments.index_of(clean_offset)
    dirty = inactive[first_dirty:]
    bound = min(last_stable_offset, segments.active.base_offset)
    lag_ms = log.config.min_compaction_lag_ms
    if lag_ms > 0:
        young = next((segment for segment in dirty if segment.max_timestamp_ms > now_ms - lag_ms), None)
        bound = bound if young is None else min(bound, young.base_offset)
    end_offset = segments[segments.index_of(bound)].base_offset
    clean_bytes = sum(segment.size for segment in inactive[:first_dirty])
    dirty_bytes = sum(segment.size for segment in dirty if segment.base_offset < end_offset)
    return DirtySection(clean_offset, end_offset, clean_bytes, dirty_bytes, _is_overdue(log, dirty, now_ms))


def _is_overdue(log: Log, dirty: Sequence[LogSegment], now_ms: int) -> bool:
    oldest_allowed_ms = now_ms - log.config.max_compaction_lag_ms
    return oldest_allowed_ms > 0 and any(0 < segment.first_timestamp_ms < oldest_allowed_ms for segment in dirty)


def plan(log: Log, dirty: DirtySection, now_ms: int, most_keys: int) -> CompactionJob:
    groups = _groups(log, dirty.end_offset)
    return CompactionJob(
        directory=log.directory,
        groups=groups,
        first_dirty_offset=dirty.first_offset,
        aborted=_aborted(log, dirty.end_offset),
        producers={
            entry.producer_id: LastOfProducer(entry.last_offset if entry.batches else None, entry.epoch)
            for entry in log.producers
            if entry.last_offset < dirty.end_offset
        },
        delete_retention_ms=log.config.delete_retention_ms,
        index_interval_bytes=log.config.index_interval_bytes,
        now_ms=now_ms,
        most_keys=most_keys,
        truncations=log.truncations,
    )


def find_sources(log: Log, job: CompactionJob, group: Sequence[SourceSegment]) -> list[LogSegment] | None:
    """The segments of a group as the log has them; None if retention or a truncation has changed them since the plan."""
    segments = log.segments
    if log.is_offline or log.truncations != job.truncations:
        return None
    first = segments.index_of(group[0].base_offset)
    found = list(segments)[first : min(first + len(group), len(segments) - 1)]
    unchanged = [(segment.base_offset, segment.size) for segment in found] == [source[:2] for source in group]
    return found if unchanged else None


def _groups(log: Log, end_offset: int) -> tuple[tuple[SourceSegment, ...], ...]:
    """Segments that fit together into one: by their bytes, by their indexes, and by the offsets that an index can hold."""
    groups: list[list[SourceSegment]] = []
    size = offset_index_size = time_index_size = 0
    most_entries = log.config.segment_index_bytes // TIME_ENTRY.size - 1
    for index, segment in enumerate(log.segments):
        next_base = log.segments.next_base(index)
        if next_base is None or segment.base_offset >= end_offset:
            break
        size += segment.size
        offset_index_size += len(segment.offset_index)
        time_index_size += len(segment.time_index)
        fits = (
            bool(groups)
            and size <= log.config.segment_bytes
            and max(offset_index_size, time_index_size) <= most_entries
            and next_base - groups[-1][0].base_offset <= LARGEST_RELATIVE_OFFSET
        )
        if not fits:
            groups.append([])
            size = segment.size
            offset_index_size, time_index_size = len(segment.offset_index), len(segment.time_index)
        groups[-1].append(SourceSegment(segment.base_offset, segment.size, next_base))
    return tuple(tuple(group) for group in groups)


def _aborted(log: Log, end_offset: int) -> tuple[AbortedTransaction, ...]:
    """The aborted transactions that began below `end_offset`; their markers may lie beyond it."""
    return tuple(
        aborted
        for segment in log.segments
        for aborted in segment.transaction_index.entries()
        if aborted.first_offset < end_offset
    )
