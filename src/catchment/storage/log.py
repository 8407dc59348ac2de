"""One partition's log: append, read, roll, sync and truncate.

Nothing is counted before it is written: a disk that rejects a write leaves the log as it was, and the next append may succeed.
Whatever else can fail comes before the write, and the bookkeeping after it touches memory alone.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from kio.schema.errors import ErrorCode
from typing_extensions import Buffer

from catchment.ports.clock import Clock
from catchment.ports.disk import Disk, Replacement, TornWrite
from catchment.protocol.batch import HEAD_SIZE, BatchHeader, CorruptBatch, patched_head
from catchment.protocol.errors import ApiError
from catchment.storage import layout
from catchment.storage.config import LogConfig
from catchment.storage.control_record import TransactionMarker, read_marker
from catchment.storage.local_log import LocalLog, LogParts
from catchment.storage.policies import RollLimits, must_roll, retained_from, roll_limits
from catchment.storage.segments.segment import LogSegment
from catchment.storage.segments.segment_list import Cut
from catchment.storage.validation import (
    FollowerBatch,
    PreparedBatch,
    check_batch,
    is_costly,
    needs_transform,
    prepare,
    runs,
    split_batches,
    transform,
)

_logger = logging.getLogger(__name__)


class AppendInfo(NamedTuple):
    base_offset: int
    last_offset: int
    log_append_time_ms: int
    """The timestamp that the log gave the batch, or -1 where the producer's own counts."""
    log_start_offset: int
    is_duplicate: bool


class Log(LocalLog):
    __slots__ = ("_needs_transform", "_roll_limits", "leader_epochs", "producer_snapshots", "producers", "topic_id")

    def __init__(self, disk: Disk, clock: Clock, config: LogConfig, parts: LogParts) -> None:
        super().__init__(disk, clock, config, parts)
        self.topic_id = parts.topic_id
        self.leader_epochs = parts.leader_epochs
        self.producers = parts.producers
        self.producer_snapshots = parts.producer_snapshots
        self._roll_limits: RollLimits | None = None
        self._needs_transform = needs_transform(config)

    def update_config(self, config: LogConfig) -> None:
        super().update_config(config)
        self._needs_transform = needs_transform(config)
        self._roll_limits = None

    @property
    def first_unstable_offset(self) -> int | None:
        return self.producers.first_unstable_offset

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where readers of committed data may read: a marker below the high watermark no longer holds them back."""
        self.producers.forget_replicated(high_watermark)
        first_unstable = self.producers.first_unstable_offset
        if first_unstable is None:
            return high_watermark
        # Records of an open transaction may have been deleted.
        return min(high_watermark, max(first_unstable, self.log_start_offset))

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch up to `leader_epoch`, and its end; (-1, -1) if it is not known."""
        return self.leader_epochs.end_offset(leader_epoch, self.log_end_offset)

    def is_costly(self, batch: memoryview) -> bool:
        """Whether the topic's configuration makes it long work to append the batch: then prepare it in another thread."""
        return self._needs_transform and is_costly(batch, self.config)

    def append_as_leader(
        self, batch: memoryview | PreparedBatch, leader_epoch: int, *, is_from_client: bool = True
    ) -> AppendInfo:
        """Append one batch at the end. Coordinators of this broker, not clients, may write control batches."""
        self._check_online()
        config = self.config
        now_ms = self._clock.now_ms()
        if isinstance(batch, PreparedBatch):
            # The configuration may have changed since; then the batch is prepared again.
            is_current = batch.config is config
            batch, header, *_ = batch if is_current else prepare(batch.original, config, now_ms)
        else:
            header = check_batch(batch, config, now_ms, is_from_client=is_from_client)
            if self._needs_transform:
                batch, header = transform(batch, header, config, now_ms)
        log_append_time_ms = header.max_timestamp_ms if config.is_log_append_time else -1
        marker: TransactionMarker | None = None
        if header.producer_id >= 0:
            if header.is_control:
                marker = read_marker(batch)
                if marker is not None:
                    self.producers.check_marker(header, marker)
            elif (original := self.producers.check(header, is_from_client=is_from_client)) is not None:
                original_ms = original.timestamp_ms if config.is_log_append_time else -1
                return AppendInfo(
                    original.base_offset, original.last_offset, original_ms, self.log_start_offset, is_duplicate=True
                )
        base_offset = self.log_end_offset
        last_offset = base_offset + header.last_offset_delta
        segment = self._segment_for(base_offset, last_offset, batch.nbytes, header.max_timestamp_ms, now_ms)
        pieces = (patched_head(base_offset, header.length, leader_epoch), batch[HEAD_SIZE:])
        if marker is None:
            self._write(segment, pieces)
        else:
            self._write_marker(segment, pieces, header, marker, last_offset)
        try:
            self._count(segment, batch.nbytes, last_offset, header.max_timestamp_ms)
            if leader_epoch > self.leader_epochs.latest:
                self.leader_epochs.assign(leader_epoch, base_offset)
            if marker is not None:
                self.producers.complete(header, marker, last_offset)
            elif header.producer_id >= 0:
                self.producers.update(header, base_offset, header.max_timestamp_ms, now_ms)
        except BaseException as error:
            self.fail(error)
            raise
        return AppendInfo(base_offset, last_offset, log_append_time_ms, self.log_start_offset, is_duplicate=False)

    def append_as_follower(self, batches: memoryview) -> AppendInfo | None:
        """Append batches with the offsets and epochs that the leader gave them; None if there is no whole one.

        A marker is written by itself, since its index entry comes first: an error in the middle leaves the batches before it.
        """
        self._check_online()
        data, found = split_batches(batches, self.log_end_offset)
        if not found:
            return None
        first, last = found[0].header, found[-1].header
        now_ms = self._clock.now_ms()
        max_timestamp_ms = max(batch.header.max_timestamp_ms for batch in found)
        segment = self._segment_for(first.base_offset, last.last_offset, data.nbytes, max_timestamp_ms, now_ms)
        for run, run_batches in runs(data, found):
            header, marker = run_batches[0]
            if marker is None:
                self._write(segment, (run,))
            else:
                self._write_marker(segment, (run,), header, marker, header.last_offset)
            try:
                self._count_run(segment, run_batches)
            except BaseException as error:
                self.fail(error)
                raise
        return AppendInfo(first.base_offset, last.last_offset, -1, self.log_start_offset, is_duplicate=False)

    def _segment_for(
        self, base_offset: int, last_offset: int, size: int, max_timestamp_ms: int, now_ms: int
    ) -> LogSegment:
        """The active segment, or a new one if the batches do not fit there; ready to count what is written to it."""
        segment = self.segments.active
        limits = self._roll_limits
        if (
            limits is not None
            and limits.segment is segment
            and segment.size + size <= limits.size
            and last_offset <= limits.offset
            and max_timestamp_ms <= limits.timestamp_ms
        ):
            return segment
        try:
            if not must_roll(segment, self.config, size, last_offset, max_timestamp_ms, now_ms):
                segment.prepare()
                self._roll_limits = roll_limits(segment, self.config)
                return segment
            if size > self.config.segment_bytes:
                raise ApiError(
                    ErrorCode.record_list_too_large,
                    f"{size} bytes do not fit into segment.bytes={self.config.segment_bytes}",
                )
            self.roll(base_offset)
        except OSError as error:
            raise self.storage_error(error) from error
        except CorruptBatch as error:
            raise ApiError(ErrorCode.corrupt_message, f"{self.topic}-{self.partition}: {error}") from error
        return self.segments.active

    def _write_marker(
        self,
        segment: LogSegment,
        pieces: Sequence[Buffer],
        header: BatchHeader,
        marker: TransactionMarker,
        offset: int,
    ) -> None:
        aborted = self.producers.aborted_by(header, marker, offset)
        if aborted is None:
            self._write(segment, pieces)
        else:
            self._write_abort(segment, pieces, aborted)

    def _count_run(self, segment: LogSegment, batches: Sequence[FollowerBatch]) -> None:
        for header, marker in batches:
            self._count(segment, header.size, header.last_offset, header.max_timestamp_ms)
            self.leader_epochs.assign(header.leader_epoch, header.base_offset)
            if marker is not None:
                self.producers.complete(header, marker, header.last_offset)
            elif header.has_producer and not header.is_control:
                self.producers.update(header, header.base_offset, header.max_timestamp_ms, header.max_timestamp_ms)

    def roll(self, base_offset: int | None = None) -> None:
        """Finish the active segment and begin the next; an empty one stays. OSError changes nothing."""
        self._check_online()
        base_offset = max(self.log_end_offset, base_offset or 0)
        active = self.segments.active
        if active.size == 0 and active.base_offset == base_offset:
            return
        try:
            finished = active.seal()
            snapshot = self.producer_snapshots.write(base_offset, self.producers)
            self._begin_segment(base_offset, (snapshot, *finished))
        except TornWrite as error:
            self.fail(error)
            raise
        if self.leader_epochs.is_dirty:
            self._unsynced.note_epochs(active.base_offset)

    def sync(self) -> None:
        """Make everything durable, and block the caller until it is. For rare moments; a failure is final."""
        try:
            self.leader_epochs.flush()
            self._unsynced.mark_epochs_flushed()
            self._sync_files()
        except OSError as error:
            self.fail(error)
            raise
        self.mark_synced(self.log_end_offset)

    @property
    def needs_epoch_flush(self) -> bool:
        """Whether the leader epochs must be written before the recovery point may pass a finished segment."""
        return self._unsynced.awaits_epochs

    def begin_epoch_flush(self) -> Replacement:
        """What the leader epoch checkpoint is to hold; `end_epoch_flush` once it does."""
        return self.leader_epochs.begin_flush()

    def end_epoch_flush(self) -> None:
        self.leader_epochs.end_flush()
        if not self.leader_epochs.is_dirty:
            self._unsynced.mark_epochs_flushed()

    def truncate_to(self, offset: int) -> None:
        """Cut everything from `offset` on; a batch that holds it goes whole.

        A cut is durable on return. Otherwise a power loss could bring the old end back behind what was appended since, and two
        histories would be one log. OSError, or CorruptBatch, while looking for the position changes nothing. The new end counts
        before the first file is touched, so a cut that fails half-way takes the log offline: only recovery can find its end.
        """
        self._check_online()
        self._roll_limits = None
        if offset >= self.log_end_offset:
            return
        cut = self.segments.find_cut(offset) if offset >= self.segments.first_offset else None
        try:
            if cut is None:
                self._restart_at(offset)
            else:
                self._cut(cut)
        except (OSError, CorruptBatch, struct.error) as error:
            self.fail(error)
            raise self.storage_error(error) from error

    def _cut(self, cut: Cut) -> None:
        self._truncate_segments(cut)
        self.producer_snapshots.remove_above(cut.end_offset)
        self.producer_snapshots.rebuild(self.producers, self.segments, cut.end_offset)
        self.leader_epochs.truncate_from_end(cut.end_offset)
        self.sync()
        cut.segment.end_ranges()

    def _restart_at(self, offset: int) -> None:
        self._restart_segments_at(offset)
        self.producer_snapshots.remove_all_but(set())
        self.producers.clear()
        self.leader_epochs.clear()
        self.sync()

    def advance_log_start(self, offset: int) -> None:
        """Hide everything below `offset`, and remove the segments that hold nothing else, now or when the disk allows it."""
        self._check_online()
        if offset > self.log_end_offset:
            raise ApiError(
                ErrorCode.offset_out_of_range,
                f"the log start of {self.topic}-{self.partition} cannot pass its end at {self.log_end_offset}",
            )
        if offset <= self.log_start_offset:
            return
        self._move_log_start(offset)
        try:
            self._remove_below_start(self._clock.now_ms())
        except OSError as error:
            # The records are hidden, as the caller asked. Their space is freed by the next retention.
            _logger.warning("segments of %s-%d cannot be removed yet: %s", self.topic, self.partition, error)

    def apply_retention(self, now_ms: int, high_watermark: int) -> int:
        """Remove what time, size and count no longer keep, never beyond the high watermark; the number of segments removed."""
        if self.is_offline:
            return 0
        self.producers.expire(now_ms, self.config.producer_id_expiration_ms)
        start = retained_from(
            self.segments, self.config, self.log_start_offset, self.log_end_offset, high_watermark, now_ms
        )
        if start == self.log_end_offset <= high_watermark and self.segments.active.size:
            # Everything goes: without a roll the active segment would keep its space.
            self.roll()
        if start > self.log_start_offset:
            self._move_log_start(start)
        return self._remove_below_start(now_ms)

    def _move_log_start(self, offset: int) -> None:
        super()._move_log_start(offset)
        self.leader_epochs.truncate_from_start(offset)

    def _remove_below_start(self, now_ms: int) -> int:
        count = self._remove_segments_below_start(now_ms)
        if count:
            self.producer_snapshots.remove_below(self.segments.first_offset)
        return count

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Record which topic this is, durably from the next sync on."""
        file = self._disk.open_file(f"{self.directory}/{layout.PARTITION_METADATA}")
        file.truncate(0)
        self.topic_id = None
        file.append([layout.format_partition_metadata(topic_id)])
        self._unsynced.add(file, self.segments.active.base_offset)
        self._unsynced.note_directory()
        self.topic_id = topic_id

    def finish(self) -> None:
        """Write what a start after a clean stop reads instead of the batches; it waits for a sync."""
        active = self.segments.active
        try:
            for file in active.seal():
                self._unsynced.add(file, active.base_offset)
            if self.producer_snapshots.newest_offset != self.log_end_offset:
                snapshot = self.producer_snapshots.write(self.log_end_offset, self.producers)
                self._unsynced.add(snapshot, active.base_offset)
                self._unsynced.note_directory()
        except TornWrite as error:
            self.fail(error)
            raise

    def close(self, *, clean: bool = True) -> None:
        """Close the files; a clean close first makes everything durable, so that the next start reads no data.

        A new log that was not touched has nothing to lose: thousands of them close without a sync.
        """
        if clean and not self.is_offline and self.has_changed:
            self.finish()
            self.sync()
            self.mark_finished(self.log_end_offset)
        self.segments.close()
