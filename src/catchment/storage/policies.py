"""Decisions about segments: when the active one is full, and which of the oldest may be deleted.

Everything here reads facts and returns a decision, which `Log` carries out.
"""

from __future__ import annotations

import zlib
from typing import NamedTuple

from catchment.protocol.batch import HEADER_SIZE
from catchment.storage.config import LogConfig
from catchment.storage.segments.index import TIME_ENTRY
from catchment.storage.segments.segment import LARGEST_RELATIVE_OFFSET, LogSegment
from catchment.storage.segments.segment_list import LogSegments


class RollLimits(NamedTuple):
    """Bounds within which a batch certainly fits into a segment: most appends compare three numbers and nothing else."""

    segment: LogSegment
    size: int
    offset: int
    timestamp_ms: int


def roll_limits(segment: LogSegment, config: LogConfig) -> RollLimits | None:
    """None while the segment has no record with a timestamp, from which its age could be computed."""
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
    segment: LogSegment, config: LogConfig, size: int, last_offset: int, max_timestamp_ms: int, now_ms: int
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


def _age_ms(segment: LogSegment, max_timestamp_ms: int, now_ms: int) -> int:
    """Age is measured by the records' timestamps, so that a replayed history rolls as the original did."""
    first_timestamp_ms = segment.first_timestamp_ms
    if first_timestamp_ms >= 0:
        return max_timestamp_ms - first_timestamp_ms
    return now_ms - segment.modified_ms


def _jitter_ms(segment: LogSegment, config: LogConfig) -> int:
    """Spread the rolls of many partitions; derived from the segment's name, so that it stays the same."""
    if not config.segment_jitter_ms:
        return 0
    most_ms = min(config.segment_jitter_ms, config.longest_segment_ms)
    return zlib.crc32(segment.path("").encode()) % most_ms if most_ms > 0 else 0


def retained_from(
    segments: LogSegments,
    config: LogConfig,
    log_start_offset: int,
    log_end_offset: int,
    high_watermark: int,
    now_ms: int,
) -> int:
    """The log start offset after retention, never beyond the high watermark.

    Time and size delete whole segments, oldest first, as in Kafka. Retention by count moves the log start exactly, and segments
    follow once all of their records are below it.
    """
    if not config.is_deleted:
        return log_start_offset
    start = log_start_offset
    if config.retention_messages >= 0:
        start = max(start, min(high_watermark, log_end_offset - config.retention_messages))
    ends = [*(segment.base_offset for segment in list(segments)[1:]), log_end_offset]
    kept = [
        (segment, end) for segment, end in zip(segments, ends, strict=True) if segment is segments.active or end > start
    ]
    excess_bytes = sum(segment.size for segment, _ in kept) - config.retention_bytes
    is_by_time = config.retention_ms >= 0
    for segment, end in kept:
        if high_watermark < end or (segment is segments.active and not segment.size):
            break
        is_by_time = is_by_time and now_ms - _latest_ms(segment) > config.retention_ms
        is_by_size = config.retention_bytes >= 0 and excess_bytes > 0 and excess_bytes >= segment.size
        if not is_by_time and not is_by_size:
            break
        excess_bytes -= segment.size
        start = max(start, end)
    return start


def _latest_ms(segment: LogSegment) -> int:
    return segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else segment.modified_ms
