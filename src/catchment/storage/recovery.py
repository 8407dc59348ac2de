"""Open a log: at once after a clean stop, by reading from the recovery point after any other.

A clean start reads file names and sizes, the leader epochs and one snapshot, but no batch. After an unclean stop every batch
from the segment of the recovery point on is checked. The log ends before the first that is not valid, and the same pass rebuilds
indexes, producer state, epochs and aborted transactions. Segments below the recovery point were on the device with their indexes
when it passed them, and are trusted.
"""

from __future__ import annotations

import contextlib
from uuid import UUID

from catchment.ports.clock import Clock
from catchment.ports.disk import DirectoryEntry, Disk
from catchment.protocol.batch import CorruptBatch
from catchment.storage import layout
from catchment.storage.compaction.swap import clear_leftovers
from catchment.storage.config import LogConfig
from catchment.storage.control_record import read_marker
from catchment.storage.leader_epochs import LeaderEpochs
from catchment.storage.local_log import LogParts
from catchment.storage.log import Log
from catchment.storage.producers.snapshots import ProducerSnapshots, apply
from catchment.storage.producers.state import ProducerState
from catchment.storage.segments.batch_scan import BatchScan, ScannedBatch
from catchment.storage.segments.index import OFFSET_ENTRY, TIME_ENTRY
from catchment.storage.segments.segment import LogSegment
from catchment.storage.segments.segment_list import LogSegments
from catchment.storage.unsynced import UnsyncedFiles


def create_log(
    disk: Disk, clock: Clock, directory: str, topic: str, partition: int, topic_id: UUID | None, config: LogConfig
) -> Log:
    """A new, empty log in a directory that does not exist yet."""
    disk.make_directory(directory)
    log = open_log(disk, clock, directory, topic, partition, config, is_new=True)
    if topic_id is not None:
        log.assign_topic_id(topic_id)
    return log


def open_log(
    disk: Disk,
    clock: Clock,
    directory: str,
    topic: str,
    partition: int,
    config: LogConfig,
    *,
    is_clean: bool = False,
    is_new: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
) -> Log:
    """The log in `directory`; `is_clean` if its last user closed it. The offsets come from the checkpoints."""
    listing = clear_leftovers(disk, directory, disk.list_directory(directory))
    now_ms = clock.now_ms()
    found, snapshots = _files_by_offset(listing)
    segments = LogSegments(disk, directory, _open_segments(disk, directory, found, now_ms))
    epochs = LeaderEpochs(disk, f"{directory}/{layout.LEADER_EPOCHS}")
    epochs.load()
    producers = ProducerState()
    unsynced = UnsyncedFiles(directory, is_new=is_new)
    if not len(segments):
        segments.create(log_start_offset, now_ms)
        unsynced.note_directory()
    parts = LogParts(
        directory=directory,
        topic=topic,
        partition=partition,
        topic_id=None if is_new else _read_topic_id(disk, directory, listing),
        segments=segments,
        leader_epochs=epochs,
        producers=producers,
        producer_snapshots=ProducerSnapshots(disk, directory, snapshots),
        unsynced=unsynced,
        log_start_offset=max(log_start_offset, segments.first_offset),
        log_end_offset=segments.active.base_offset,
        synced_offset=0,
        has_changed=not is_new and not is_clean,
    )
    if is_clean:
        is_clean = _open_clean(parts, recovery_point)
        recovery_point = recovery_point if is_clean else segments.active.base_offset
    if not is_clean:
        _Recovery(parts, config, now_ms).run(recovery_point)
    _rebuild_missing_indexes(parts, found, config, None if is_clean else recovery_point)
    _settle(parts, now_ms)
    return Log(disk, clock, config, parts)


def _files_by_offset(listing: list[DirectoryEntry]) -> tuple[dict[int, dict[str, int]], list[int]]:
    """Sizes of the segments' files by base offset and suffix, and the offsets of the snapshots."""
    found: dict[int, dict[str, int]] = {}
    snapshots: list[int] = []
    for entry in listing:
        name = layout.parse_file_name(entry.name)
        if name is None:
            continue
        if name.suffix == layout.SNAPSHOT:
            snapshots.append(name.offset)
        elif name.suffix in layout.SEGMENT_SUFFIXES:
            found.setdefault(name.offset, {})[name.suffix] = entry.size
    return found, snapshots


def _open_segments(disk: Disk, directory: str, found: dict[int, dict[str, int]], now_ms: int) -> list[LogSegment]:
    segments = []
    for base_offset, sizes in sorted(found.items()):
        if layout.LOG in sizes:
            segments.append(LogSegment(disk, directory, base_offset, now_ms, sizes))
            continue
        for suffix in sizes:
            # An index whose log file is gone was left by a crash during a deletion.
            disk.remove_file(f"{directory}/{layout.file_name(base_offset, suffix)}")
    return segments


def _read_topic_id(disk: Disk, directory: str, listing: list[DirectoryEntry]) -> UUID | None:
    if not any(entry.name == layout.PARTITION_METADATA for entry in listing):
        return None
    try:
        return layout.parse_partition_metadata(disk.read_file(f"{directory}/{layout.PARTITION_METADATA}"))
    except ValueError:
        # Torn by a crash before its first sync: the caller that has the topic's id assigns it again.
        return None


def _open_clean(parts: LogParts, recovery_point: int) -> bool:
    """A clean stop left the recovery point and a snapshot at the end of the log; where they agree, no batch is read.

    False if the log is not what a clean stop leaves: then it must be recovered.
    """
    active = parts.segments.active
    if active.size == 0:
        end_offset = active.base_offset
    elif recovery_point == parts.producer_snapshots.newest_offset and recovery_point > active.base_offset:
        end_offset = recovery_point
    else:
        try:
            last = active.last_batch()
        except CorruptBatch:
            return False
        end_offset = active.base_offset if last is None else last.next_offset
    parts.log_end_offset = parts.synced_offset = end_offset
    try:
        parts.producer_snapshots.rebuild(parts.producers, parts.segments, end_offset)
    except CorruptBatch:
        return False
    return True


class _Recovery:
    """One scan of the batches from the recovery point on."""

    def __init__(self, parts: LogParts, config: LogConfig, now_ms: int) -> None:
        self._parts = parts
        self._config = config
        self._now_ms = now_ms

    def run(self, recovery_point: int) -> None:
        """A segment that ends at the recovery point is checked too: its indexes may have been written after the checkpoint."""
        parts = self._parts
        suspects = parts.segments.since(recovery_point - 1)
        next_offset = suspects[0].base_offset
        parts.leader_epochs.truncate_from_end(next_offset)
        parts.producer_snapshots.remove_above(next_offset)
        with contextlib.suppress(CorruptBatch):
            parts.producer_snapshots.rebuild(parts.producers, parts.segments, next_offset)
        for number, segment in enumerate(suspects):
            if number and not segment.size and segment.base_offset < next_offset:
                # A roll failed after it had created the file, and appends continued in the segment before it.
                self._drop([segment])
                continue
            if number and self._is_torn_off(segment, next_offset):
                self._drop(suspects[number:])
                break
            if number:
                parts.producer_snapshots.write(segment.base_offset, parts.producers)
            size = segment.size
            next_offset = self._scan(segment, suspects[number + 1].base_offset if number + 1 < len(suspects) else None)
            if segment.size < size:
                # Synced at once: the torn tail must not come back behind batches that are appended after this start.
                segment.file.truncate(segment.size)
                segment.file.sync()
                self._drop(suspects[number + 1 :])
                break
        self._finish(suspects)
        parts.log_end_offset = max(next_offset, parts.segments.active.base_offset)
        parts.synced_offset = min(recovery_point, parts.log_end_offset)

    def _is_torn_off(self, segment: LogSegment, next_offset: int) -> bool:
        """Whether records between the segments were lost: they follow each other without a gap unless compaction made one."""
        return segment.base_offset < next_offset or (
            segment.base_offset > next_offset and not self._config.is_compacted
        )

    def _scan(self, segment: LogSegment, end_offset: int | None) -> int:
        """Rebuild all that is known of a segment; the offset after its last valid batch."""
        size = segment.size
        segment.reset()
        next_offset = segment.base_offset
        scan = BatchScan(segment.file, size, next_offset, end_offset, are_gaps_expected=self._config.is_compacted)
        for batch in scan:
            if not segment.holds_relative(batch.header.last_offset):
                break
            header = batch.header
            segment.note(header.size, header.last_offset, header.max_timestamp_ms, self._config.index_interval_bytes)
            self._parts.leader_epochs.assign(header.leader_epoch, header.base_offset)
            if header.has_producer:
                self._apply(segment, batch)
            next_offset = header.next_offset
        return next_offset

    def _apply(self, segment: LogSegment, batch: ScannedBatch) -> None:
        producers, header = self._parts.producers, batch.header
        if header.is_control:
            marker = read_marker(batch.data)
            aborted = producers.aborted_by(header, marker, header.last_offset) if marker else None
            if aborted is not None:
                segment.transaction_index.append(aborted)
        apply(producers, header, batch.data if header.is_control else None)

    def _drop(self, segments: list[LogSegment]) -> None:
        for segment in reversed(segments):
            self._parts.segments.remove(segment, self._now_ms)
        self._parts.segments.remove_deleted(self._now_ms)

    def _finish(self, suspects: list[LogSegment]) -> None:
        """What was found may be in the page cache only: it needs a sync like anything new."""
        active = self._parts.segments.active
        for segment in suspects:
            if segment.base_offset > active.base_offset:
                break
            if segment.is_closed:
                continue
            self._parts.unsynced.add(segment.file, segment.base_offset)
            for file in segment.seal() if segment is not active else ():
                self._parts.unsynced.add(file, segment.base_offset)
            if segment is not active:
                segment.release()
        self._parts.unsynced.note_directory()


def _rebuild_missing_indexes(
    parts: LogParts, found: dict[int, dict[str, int]], config: LogConfig, recovery_point: int | None
) -> None:
    """Rebuild indexes that are missing or cannot be whole; recovery has done those from the recovery point on."""
    checked = None if recovery_point is None else parts.segments.index_of(recovery_point - 1)
    for segment in list(parts.segments)[:checked]:
        sizes = found.get(segment.base_offset)
        if sizes is None or (
            sizes.get(layout.OFFSET_INDEX, -1) % OFFSET_ENTRY.size == 0
            and sizes.get(layout.TIME_INDEX, -1) % TIME_ENTRY.size == 0
        ):
            continue
        segment.rebuild_indexes(config.index_interval_bytes)
        parts.has_changed = True


def _settle(parts: LogParts, now_ms: int) -> None:
    """Make the parts agree on where the log begins and ends."""
    if parts.log_end_offset < parts.log_start_offset:
        # Everything below the log start was deleted on purpose, so what is left of it must not come back.
        for segment in reversed(list(parts.segments)):
            parts.segments.remove(segment, now_ms)
        parts.segments.remove_deleted(now_ms)
        parts.segments.create(parts.log_start_offset, now_ms)
        parts.log_end_offset = parts.synced_offset = parts.log_start_offset
        parts.leader_epochs.clear()
        parts.producers.clear()
        parts.unsynced.forget_from(0)
        parts.unsynced.note_directory()
        parts.has_changed = True
    parts.leader_epochs.truncate_from_end(parts.log_end_offset)
    parts.leader_epochs.truncate_from_start(parts.log_start_offset)
    bases = {segment.base_offset for segment in parts.segments}
    # A snapshot before the log may be all that is left of some producers: the next start must find it as well.
    before = [offset for offset in parts.producer_snapshots.offsets if offset <= parts.segments.first_offset]
    parts.producer_snapshots.remove_all_but(bases | {parts.log_end_offset, *before[-1:]})
