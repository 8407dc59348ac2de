"""What a log may forget: by time, by size, by count, and below the log start that somebody asked for.

Time and size work on whole segments, oldest first, as in Kafka. Retention by count moves the log start exactly, and segments
follow once all of their records are below it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TYPE_CHECKING

from kio.schema.errors import ErrorCode

from catchment.protocol.errors import ApiError
from catchment.storage.segment import Segment

if TYPE_CHECKING:
    from catchment.storage.log import Log

_logger = logging.getLogger(__name__)


def advance_log_start(log: Log, offset: int, now_ms: int) -> None:
    if offset > log.log_end_offset:
        raise ApiError(
            ErrorCode.offset_out_of_range,
            f"the log start of {log.topic}-{log.partition} cannot pass its end at {log.log_end_offset}",
        )
    if offset <= log.log_start_offset:
        return
    log.log_start_offset = offset
    log.leader_epochs.truncate_from_start(offset)
    log.has_changed = True
    try:
        _remove_below_start(log, now_ms)
    except OSError as error:
        # The records are hidden, which is what was asked for. Their space is freed by the next retention.
        _logger.warning("segments of %s-%d cannot be removed yet: %s", log.topic, log.partition, error)


def apply(log: Log, now_ms: int, high_watermark: int) -> int:
    """Remove what is no longer kept; how many segments went."""
    count = 0
    config = log.config
    if config.is_deleted:
        if config.retention_messages >= 0:
            keep_from = min(high_watermark, log.log_end_offset - config.retention_messages)
            before = len(log.segments)
            advance_log_start(log, keep_from, now_ms)
            count += before - len(log.segments)
        count += _remove(log, now_ms, _expired(log, now_ms), high_watermark)
        count += _remove(log, now_ms, _beyond_size(log), high_watermark)
    if log.log_start_offset == log.log_end_offset <= high_watermark:
        # All of it is hidden: without a roll the active segment would keep its space.
        _roll_if_written(log)
    return count + _remove_below_start(log, now_ms)


def _expired(log: Log, now_ms: int) -> Callable[[Segment], bool]:
    retention_ms = log.config.retention_ms

    def is_expired(segment: Segment) -> bool:
        latest_ms = segment.max_timestamp_ms if segment.max_timestamp_ms >= 0 else segment.modified_ms
        return retention_ms >= 0 and now_ms - latest_ms > retention_ms

    return is_expired


def _beyond_size(log: Log) -> Callable[[Segment], bool]:
    excess_bytes = log.size_bytes - log.config.retention_bytes if log.config.retention_bytes >= 0 else 0

    def is_beyond(segment: Segment) -> bool:
        nonlocal excess_bytes
        if excess_bytes <= 0 or excess_bytes < segment.size:
            return False
        excess_bytes -= segment.size
        return True

    return is_beyond


def _remove(log: Log, now_ms: int, is_removable: Callable[[Segment], bool], high_watermark: int) -> int:
    doomed: list[Segment] = []
    for index, segment in enumerate(log.segments):
        next_base = log.segments.next_base(index)
        end_offset = log.log_end_offset if next_base is None else next_base
        if segment.size == 0 and next_base is None:
            break
        if high_watermark < end_offset or not is_removable(segment):
            break
        doomed.append(segment)
    if doomed and len(doomed) == len(log.segments):
        log.roll()
    if doomed:
        new_start = log.segments[len(doomed)].base_offset
        if new_start > log.log_start_offset:
            log.log_start_offset = new_start
            log.leader_epochs.truncate_from_start(new_start)
    return _remove_below_start(log, now_ms)


def _remove_below_start(log: Log, now_ms: int) -> int:
    """Remove the segments whose last offset is below the log start. The start moved first, so no reader finds a hole."""
    before = len(log.segments)
    try:
        while len(log.segments) > 1 and log.segments[1].base_offset <= log.log_start_offset:
            log.segments.remove(log.segments[0], now_ms + log.config.file_delete_delay_ms)
    finally:
        count = before - len(log.segments)
        if count:
            log.unsynced.forget_below(log.segments.first_offset)
            log.unsynced.note_directory()
            log.has_changed = True
    if count:
        log.producer_files.remove_below(log.segments.first_offset)
    return count


def _roll_if_written(log: Log) -> None:
    if log.segments.active.size:
        log.roll()
