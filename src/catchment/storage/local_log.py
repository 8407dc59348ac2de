"""The segments of one log on one disk: where they begin and end, how to read them, and how much of them the device holds.

`Log` extends this class by what the batches mean: producers, transactions and leader epochs. As in Kafka, the two are layers of
one log, and the segments and offsets change in this layer alone.

All of it is synchronous and belongs to one thread. A sync that fails is final, because the kernel may have dropped what it
could not write, and so is any failure between a write and its bookkeeping: the log is then offline, rejects writes, and serves
what was synced.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from uuid import UUID

from kio.schema.errors import ErrorCode
from typing_extensions import Buffer

from catchment.ports.clock import Clock
from catchment.ports.disk import Disk, File, SyncGroup, TornWrite
from catchment.protocol.errors import ApiError
from catchment.storage.compaction.plan import CleanedSegment
from catchment.storage.compaction.swap import swap_files
from catchment.storage.config import LogConfig
from catchment.storage.leader_epochs import LeaderEpochs
from catchment.storage.producers.snapshots import ProducerSnapshots
from catchment.storage.producers.state import ProducerState
from catchment.storage.segments import time_search
from catchment.storage.segments.index import AbortedTransaction
from catchment.storage.segments.lookup import FileRange, Lookup, ReadErrors
from catchment.storage.segments.segment import LogSegment
from catchment.storage.segments.segment_list import Cut, LogSegments
from catchment.storage.segments.time_search import TimeSearch, TimestampedOffset
from catchment.storage.unsynced import UnsyncedFiles


@dataclass(slots=True)
class LogParts:
    """What a log consists of, as `recovery` finds or creates it on disk."""

    directory: str
    topic: str
    partition: int
    topic_id: UUID | None
    segments: LogSegments
    leader_epochs: LeaderEpochs
    producers: ProducerState
    producer_snapshots: ProducerSnapshots
    unsynced: UnsyncedFiles
    log_start_offset: int
    log_end_offset: int
    synced_offset: int
    has_changed: bool


class LocalLog:
    __slots__ = (
        "_clock",
        "_disk",
        "_failure",
        "_last_sync_ms",
        "_lookup",
        "_read_errors",
        "_syncing_end",
        "_unsynced",
        "config",
        "directory",
        "has_changed",
        "log_end_offset",
        "log_start_offset",
        "partition",
        "segments",
        "synced_offset",
        "topic",
        "truncations",
    )

    def __init__(self, disk: Disk, clock: Clock, config: LogConfig, parts: LogParts) -> None:
        self._disk = disk
        self._clock = clock
        self.config = config
        self.directory = parts.directory
        self.topic = parts.topic
        self.partition = parts.partition
        self.segments = parts.segments
        self.log_start_offset = parts.log_start_offset
        self.log_end_offset = parts.log_end_offset
        self.synced_offset = parts.synced_offset
        self.has_changed = parts.has_changed
        self.truncations = 0
        self._unsynced = parts.unsynced
        self._lookup = Lookup(parts.segments)
        self._read_errors = ReadErrors(parts.topic, parts.partition)
        self._failure: BaseException | None = None
        self._last_sync_ms = clock.now_ms()
        # Up to where the files last handed out for a sync hold what the log holds: a truncation lowers it.
        self._syncing_end = parts.synced_offset

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def is_offline(self) -> bool:
        return self._failure is not None

    @property
    def recovery_point(self) -> int:
        """Recovery after an unclean stop need not look below this offset."""
        return self._unsynced.recovery_point(self.synced_offset)

    def update_config(self, config: LogConfig) -> None:
        self.config = config

    def fail(self, error: BaseException) -> None:
        """Go offline and reject writes from now on: what the disk holds is no longer known."""
        self._failure = self._failure or error

    def storage_error(self, error: BaseException) -> ApiError:
        return ApiError(
            ErrorCode.kafka_storage_error, f"{self.topic}-{self.partition} is offline or cannot be written: {error}"
        )

    def _check_online(self) -> None:
        if self._failure is not None:
            raise self.storage_error(self._failure)

    def locate(
        self, offset: int, max_bytes: int, upper_offset: int, *, at_least_one_batch: bool = True
    ) -> FileRange | None:
        """Where the batches from the one with `offset` lie, up to `upper_offset`; None if there are none."""
        if not self.log_start_offset <= offset <= self.log_end_offset:
            raise ApiError(
                ErrorCode.offset_out_of_range,
                f"{self.topic}-{self.partition} holds offsets {self.log_start_offset} to {self.log_end_offset}, "
                f"not {offset}",
            )
        if offset >= upper_offset:
            return None
        if self._failure is not None:
            upper_offset = self._readable_end(offset, upper_offset, self._failure)
        with self._read_errors:
            return self._lookup.locate(
                offset, max_bytes, upper_offset, self.log_end_offset, at_least_one_batch=at_least_one_batch
            )

    def read(self, offset: int, max_bytes: int, upper_offset: int, *, at_least_one_batch: bool = True) -> bytes:
        """The bytes that `locate` finds; the last batch may be cut short."""
        found = self.locate(offset, max_bytes, upper_offset, at_least_one_batch=at_least_one_batch)
        with self._read_errors:
            return b"" if found is None else found.file.read(found.position, found.size)

    def _readable_end(self, offset: int, upper_offset: int, failure: BaseException) -> int:
        """Where reading ends in an offline log: the kernel may have dropped what it could not write."""
        if offset >= self.synced_offset:
            raise self.storage_error(failure)
        return min(upper_offset, self.synced_offset)

    def offset_for_timestamp(self, timestamp_ms: int, upper_offset: int) -> TimestampedOffset | None:
        """The first record below `upper_offset` whose timestamp is `timestamp_ms` or later."""
        found = time_search.run_now(self.search_timestamp(timestamp_ms))
        return found if found is not None and found.offset < upper_offset else None

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        return time_search.run_now(self.search_max_timestamp())

    def search_timestamp(self, timestamp_ms: int) -> TimeSearch:
        """The first record whose timestamp is `timestamp_ms` or later, found in steps."""
        with self._read_errors:
            return (yield from time_search.search(self.segments, timestamp_ms, self.log_start_offset))

    def search_max_timestamp(self) -> TimeSearch:
        """The first record with the largest timestamp, found in steps."""
        with self._read_errors:
            return (yield from time_search.search_largest(self.segments, self.log_start_offset))

    def aborted_transactions(
        self, start_offset: int, upper_offset: int, read: FileRange | None = None
    ) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions in a range of offsets, or in what was `read` of it."""
        found: list[tuple[int, int]] = []
        with self._read_errors:
            for segment in self.segments.since(start_offset):
                if read is not None and len(segment.transaction_index):
                    # A reader far behind needs no list of every abort since.
                    upper_offset, read = self._lookup.end_of(read, start_offset, upper_offset), None
                for aborted in segment.transaction_index.entries():
                    if aborted.last_offset >= start_offset and aborted.first_offset < upper_offset:
                        found.append((aborted.producer_id, aborted.first_offset))
                    if aborted.last_stable_offset >= upper_offset:
                        return found
        return found

    def unsynced_group(self) -> SyncGroup:
        """What must be synced so that `mark_synced(log_end_offset)` is true."""
        group = self._unsynced.group()
        self._syncing_end = self.log_end_offset
        active = self.segments.active.file
        if self.synced_offset < self.log_end_offset and active not in group.files:
            return SyncGroup([*group.files, active], group.directories)
        return group

    def mark_synced(self, up_to_offset: int) -> None:
        """The files last handed out are on the device, and so is everything below the offset.

        What was truncated meanwhile does not count, nor what has been appended in its place.
        """
        self._unsynced.mark_synced()
        self.synced_offset = max(self.synced_offset, min(up_to_offset, self._syncing_end))
        self._last_sync_ms = self._clock.now_ms()

    def mark_finished(self, end_offset: int) -> None:
        """All that `finish` wrote is on the device, up to `end_offset`: a clean close has nothing left to do."""
        self.mark_synced(end_offset)
        self.has_changed = False

    def needs_flush(self, now_ms: int) -> bool:
        """Whether `flush.messages` or `flush.ms` asks for a sync."""
        unsynced = self.log_end_offset - self.synced_offset
        return unsynced > 0 and (
            unsynced >= self.config.flush_messages or now_ms - self._last_sync_ms >= self.config.flush_ms
        )

    def _sync_files(self) -> None:
        group = self.unsynced_group()
        for directory in group.directories:
            self._disk.sync_directory(directory)
        for file in group.files:
            file.sync()

    def _write(self, segment: LogSegment, pieces: Sequence[Buffer]) -> None:
        try:
            segment.write(pieces)
        except OSError as error:
            raise self._write_error(error) from error

    def _write_abort(self, segment: LogSegment, pieces: Sequence[Buffer], aborted: AbortedTransaction) -> None:
        """Write the marker of an aborted transaction, and its index entry."""
        try:
            # Noted before the write: if the entry is removed again, the device must hold that as well.
            self._unsynced.add(segment.transaction_index.file, segment.base_offset)
            self._unsynced.note_directory()
            segment.write_abort(pieces, aborted)
        except OSError as error:
            raise self._write_error(error) from error

    def _write_error(self, error: OSError) -> ApiError:
        if isinstance(error, TornWrite):
            self.fail(error)
        return self.storage_error(error)

    def _count(self, segment: LogSegment, size: int, last_offset: int, max_timestamp_ms: int) -> None:
        """A batch is in the file: index it, and move the end of the log behind it. In memory alone."""
        segment.note(size, last_offset, max_timestamp_ms, self.config.index_interval_bytes)
        self.log_end_offset = last_offset + 1
        self._lookup.note_boundary(last_offset + 1, segment.size)
        self.has_changed = True

    def _begin_segment(self, base_offset: int, finished: Sequence[File]) -> None:
        """Make a new segment the active one; `finished` are the files that the old one leaves for the next sync."""
        active = self.segments.active
        finished = (active.file, *finished)
        try:
            self.segments.create(base_offset, self._clock.now_ms())
        except OSError:
            self._unsynced.note_directory()
            raise
        for file in finished:
            self._unsynced.add(file, active.base_offset)
        self._unsynced.note_directory()
        self._lookup.forget_boundaries()
        active.release()

    def replace_segments(self, old: Sequence[LogSegment], cleaned: CleanedSegment) -> None:
        """Replace segments by what compaction made of them, so that a crash leaves either the old ones or the new one.

        OSError leaves the log as it was, or, if even that is not possible, offline until a start finishes the swap.
        """
        new = LogSegment(self._disk, self.directory, cleaned.base_offset, old[-1].modified_ms, cleaned.sizes)
        try:
            deleted = swap_files(self._disk, old, new)
        except TornWrite as error:
            self.fail(error)
            raise
        self.segments.replace(old, new, deleted, self._deletion_ms())
        self._unsynced.forget_between(old[0].base_offset, old[-1].base_offset)
        self._unsynced.note_directory()

    def _move_log_start(self, offset: int) -> None:
        self.log_start_offset = offset
        self.has_changed = True

    def _remove_segments_below_start(self, now_ms: int) -> int:
        """Remove the segments whose records are all below the log start. It moved first, so no reader finds a hole."""
        before = len(self.segments)
        try:
            while len(self.segments) > 1 and self.segments[1].base_offset <= self.log_start_offset:
                self.segments.remove(self.segments[0], now_ms + self.config.file_delete_delay_ms)
        finally:
            count = before - len(self.segments)
            if count:
                self._unsynced.forget_below(self.segments.first_offset)
                self._unsynced.note_directory()
                self.has_changed = True
        return count

    def _truncate_segments(self, cut: Cut) -> None:
        self._end_at(cut.end_offset)
        due_ms, last = self._deletion_ms(), cut.segment
        # From the end backwards: whatever a crash leaves of this is a log without holes.
        if self.segments.active is not last:
            while self.segments.active is not last:
                removed = self.segments.active
                self.segments.remove(removed, due_ms)
                self._unsynced.forget_from(removed.base_offset)
            # A segment that comes back must not find the one before it cut: recovery may not look at that one.
            self._disk.sync_directory(self.directory)
        if cut.position < last.size:
            last.truncate(cut.position, cut.end_offset)
        self._unsynced.add(last.file, last.base_offset)
        self._unsynced.note_directory()

    def _restart_segments_at(self, offset: int) -> None:
        """Remove every segment, and continue with an empty one."""
        self._end_at(offset)
        self.log_start_offset = offset
        due_ms = self._deletion_ms()
        while len(self.segments):
            self.segments.remove(self.segments.active, due_ms)
        self._unsynced.forget_from(0)
        self.segments.create(offset, self._clock.now_ms())
        self._unsynced.note_directory()

    def _end_at(self, offset: int) -> None:
        """Lower the end of the log for a truncation: nothing beyond it is known to be on the device."""
        self.truncations += 1
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.synced_offset = min(self.synced_offset, offset)
        self._syncing_end = min(self._syncing_end, offset)
        self._lookup.forget_boundaries()
        self.has_changed = True

    def remove_deleted(self, now_ms: int) -> int:
        """Free the space of segments that left the log `file.delete.delay.ms` ago or earlier; the number of files removed."""
        return self.segments.remove_deleted(now_ms)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def _deletion_ms(self) -> int:
        return self._clock.now_ms() + self.config.file_delete_delay_ms
