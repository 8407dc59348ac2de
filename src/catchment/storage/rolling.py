"""When a segment is full: by size, by age, by its index, or because an offset no longer fits beside its base."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING, NamedTuple

from catchment.protocol.batch import HEADER_SIZE
from catchment.storage.config import LogConfig
from catchment.storage.segment import LARGEST_RELATIVE_OFFSET, Segment
from catchment.storage.sparse_index import TIME_ENTRY

if TYPE_CHECKING:
    from catchment.storage.log import Log


class RollLimits(NamedTuple):
    """Bounds within which a batch certainly fits into a segment: most appends compare three numbers and look no further."""

    segment: Segment
    size: int
    offset: int
    timestamp_ms: int


def roll_limits(segment: Segment, config: LogConfig) -> RollLimits | None:
    """None while the segment has no record whose clock its age could be told by."""
    if segment.size == 0 or segment.first_timestamp_ms < 0:
        return None
    # An index gets at most one entry an interval, and never more than one a batch.
    entries = config.segment_index_bytes // TIME_ENTRY.size - 2
    return RollLimits(
        segment,
        min(config.segment_bytes, entries * max(config.index_interval_bytes, HEADER_SIZE)),
        segment.base_offset + LARGEST_RELATIVE_OFFSET,
        segment.first_timestamp_ms + config.longest_segment_ms - _jitter_ms(segment, config),
    )


def must_roll(
    segment: Segment, config: LogConfig, size: int, last_offset: int, max_timestamp_ms: int, now_ms: int
) -> bool:
    """Whether a batch of `size` bytes up to `last_offset` needs a new segment."""
    return (
        segment.size > config.segment_bytes - size
        or not segment.holds_relative(last_offset)
        or segment.is_index_full(config.segment_index_bytes)
        or (
            segment.size > 0
            and _age_ms(segment, max_timestamp_ms, now_ms) > config.longest_segment_ms - _jitter_ms(segment, config)
        )
    )


def roll(log: Log, base_offset: int) -> None:
    """Finish the active segment and begin one at `base_offset`. All that can fail comes before anything is counted."""
    active = log.segments.active
    if active.size == 0 and active.base_offset == base_offset:
        return
    finished = active.seal()
    snapshot = log.producer_files.write(base_offset, log.producers)
    _begin(log, base_offset)
    for file in (active.file, snapshot, *finished):
        log.unsynced.add(file, active.base_offset)
    log.unsynced.note_directory()
    if log.leader_epochs.is_dirty:
        log.unsynced.note_epochs(active.base_offset)
    log.lookup.forget_boundaries()
    active.release()


def _begin(log: Log, base_offset: int) -> None:
    """An empty file in the middle of the active segment's offsets must not outlast a failure: it would hide those above it."""
    try:
        log.segments.create(base_offset, log.now_ms())
    except OSError:
        log.unsynced.note_directory()
        try:
            log.segments.discard(base_offset)
        except OSError as error:
            log.fail(error)
        raise


def _age_ms(segment: Segment, max_timestamp_ms: int, now_ms: int) -> int:
    """Age is told by the records' own clock, so that a replayed history rolls as the original did."""
    first_timestamp_ms = segment.first_timestamp_ms
    if first_timestamp_ms >= 0:
        return max_timestamp_ms - first_timestamp_ms
    return now_ms - segment.modified_ms


def _jitter_ms(segment: Segment, config: LogConfig) -> int:
    """Spread the rolls of many partitions; derived from the segment's name, so that it stays the same."""
    if not config.segment_jitter_ms:
        return 0
    most_ms = min(config.segment_jitter_ms, config.longest_segment_ms)
    return zlib.crc32(segment.path("").encode()) % most_ms if most_ms > 0 else 0
