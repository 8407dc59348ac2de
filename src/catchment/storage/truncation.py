"""Cut a log at its end: segments, indexes, producers, epochs and transactions go back together.

A cut is durable on return. Otherwise a power loss could bring the old end back behind what was appended since, and two
histories would be one log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from catchment.storage.log import Log


def truncate_to(log: Log, offset: int) -> None:
    if offset >= log.log_end_offset:
        return
    if offset < log.segments.first_offset:
        start_at(log, offset)
        return
    now_ms = log.now_ms()
    # From the end on: whatever a crash leaves of this is a log without holes.
    for segment in reversed([segment for segment in log.segments if segment.base_offset > offset]):
        log.segments.remove(segment, now_ms + log.config.file_delete_delay_ms)
        log.unsynced.forget_from(segment.base_offset)
    active = log.segments.active
    placed = active.find(offset)
    end_offset = offset
    if placed is not None:
        end_offset = min(offset, placed.header.base_offset)
        active.truncate(placed.position, end_offset)
    log.unsynced.add(active.file, active.base_offset)
    log.unsynced.note_directory()
    log.lookup.forget_boundaries()
    log.log_end_offset = end_offset
    log.log_start_offset = min(log.log_start_offset, end_offset)
    log.synced_offset = min(log.synced_offset, end_offset)
    log.producer_files.remove_above(end_offset)
    log.producer_files.rebuild(log.producers, log.segments, end_offset)
    log.leader_epochs.truncate_from_end(end_offset)
    log.has_changed = True
    _make_durable(log)


def start_at(log: Log, offset: int) -> None:
    now_ms = log.now_ms()
    for segment in reversed(list(log.segments)):
        log.segments.remove(segment, now_ms + log.config.file_delete_delay_ms)
    log.unsynced.forget_from(0)
    log.segments.create(offset, now_ms)
    log.unsynced.note_directory()
    log.lookup.forget_boundaries()
    log.log_start_offset = log.log_end_offset = log.synced_offset = offset
    log.producer_files.remove_all_but(set())
    log.producers.clear()
    log.leader_epochs.clear()
    log.has_changed = True
    _make_durable(log)


def _make_durable(log: Log) -> None:
    try:
        log.leader_epochs.flush()
        log.sync()
    except OSError as error:
        log.fail(error)
        raise log.storage_error(error) from error
