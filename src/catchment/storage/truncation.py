"""Cut a log at its end: segments, indexes, producers, epochs and transactions go back together.

A cut is durable on return. Otherwise a power loss could bring the old end back behind what was appended since, and two
histories would be one log. The new end counts before the first file is touched, and a cut that fails half-way takes the log
offline: only recovery can then tell where the log ends.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import TYPE_CHECKING

from catchment.protocol.batch import CorruptBatch
from catchment.storage.segment import Segment

if TYPE_CHECKING:
    from catchment.storage.log import Log


def truncate_to(log: Log, offset: int) -> None:
    """OSError, or CorruptBatch, while looking for the place changes nothing; ApiError later, with the log offline."""
    if offset >= log.log_end_offset:
        return
    if offset < log.segments.first_offset:
        _guarded(log, lambda: _start_at(log, offset))
        return
    last = log.segments[log.segments.index_of(offset)]
    placed = last.find(offset)
    end_offset = offset if placed is None else min(offset, placed.header.base_offset)
    position = last.size if placed is None else placed.position
    _guarded(log, lambda: _cut(log, last, position, end_offset))


def _cut(log: Log, last: Segment, position: int, end_offset: int) -> None:
    due_ms = log.now_ms() + log.config.file_delete_delay_ms
    log.end_at(end_offset)
    # From the end on: whatever a crash leaves of this is a log without holes.
    if log.segments.active is not last:
        while log.segments.active is not last:
            removed = log.segments.active
            log.segments.remove(removed, due_ms)
            log.unsynced.forget_from(removed.base_offset)
        # A segment that comes back must not find the one before it cut: recovery may not look at that one.
        log.sync_names()
    if position < last.size:
        last.truncate(position, end_offset)
    log.unsynced.add(last.file, last.base_offset)
    log.unsynced.note_directory()
    log.producer_files.remove_above(end_offset)
    log.producer_files.rebuild(log.producers, log.segments, end_offset)
    log.leader_epochs.truncate_from_end(end_offset)
    log.sync()
    last.end_ranges()


def _start_at(log: Log, offset: int) -> None:
    now_ms = log.now_ms()
    log.end_at(offset)
    log.log_start_offset = offset
    while len(log.segments):
        log.segments.remove(log.segments.active, now_ms + log.config.file_delete_delay_ms)
    log.unsynced.forget_from(0)
    log.segments.create(offset, now_ms)
    log.unsynced.note_directory()
    log.producer_files.remove_all_but(set())
    log.producers.clear()
    log.leader_epochs.clear()
    log.sync()


def _guarded(log: Log, cut: Callable[[], None]) -> None:
    try:
        cut()
    except (OSError, CorruptBatch, struct.error) as error:
        log.fail(error)
        raise log.storage_error(error) from error
