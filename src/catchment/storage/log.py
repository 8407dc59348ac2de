"""One partition's log: append, read, roll, sync and truncate, on one disk.

All of it is synchronous and belongs to one thread. Nothing is counted before it is written: a disk that refuses a write
leaves the log as it was, and the next append may succeed. Whatever else can fail comes before the write, and counting what
was written touches memory alone. A sync that fails is final, because the kernel may have dropped what it could not write, and
so is any failure between a write and its count: the log is then offline, refuses writes, and serves what was synced.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from kio.schema.errors import ErrorCode
from typing_extensions import Buffer

from catchment.ports.clock import Clock
from catchment.ports.disk import Disk, SyncGroup, TornWrite
from catchment.protocol.batch import HEAD_SIZE, CorruptBatch, patched_head
from catchment.protocol.errors import ApiError
from catchment.storage import layout, markers, retention, rolling, time_search, truncation
from catchment.storage.config import LogConfig
from catchment.storage.control_record import TransactionMarker, read_marker
from catchment.storage.follower_batches import FollowerBatch, runs, split_batches
from catchment.storage.log_parts import AppendInfo, LogParts, LogSlice
from catchment.storage.lookup import FileRange, Lookup
from catchment.storage.reading import Reading
from catchment.storage.rolling import RollLimits, must_roll, roll_limits
from catchment.storage.segment import Segment
from catchment.storage.time_search import TimeSearch, TimestampedOffset
from catchment.storage.unsynced import Unsynced
from catchment.storage.validation import (
    PreparedBatch,
    check_batch,
    is_costly,
    needs_transform,
    prepare,
    transform,
)


class Log:
    __slots__ = (
        "_clock",
        "_config",
        "_disk",
        "_failure",
        "_last_sync_ms",
        "_needs_transform",
        "_reading",
        "_roll_limits",
        "_syncing_end",
        "directory",
        "has_changed",
        "leader_epochs",
        "log_end_offset",
        "log_start_offset",
        "lookup",
        "partition",
        "producer_files",
        "producers",
        "segments",
        "synced_offset",
        "topic",
        "topic_id",
        "truncations",
        "unsynced",
    )

    def __init__(self, disk: Disk, clock: Clock, config: LogConfig, parts: LogParts, unsynced: Unsynced) -> None:
        self._disk = disk
        self._clock = clock
        self.config = config
        self.directory = parts.directory
        self.topic = parts.topic
        self.partition = parts.partition
        self.topic_id = parts.topic_id
        self.segments = parts.segments
        self.leader_epochs = parts.leader_epochs
        self.producers = parts.producers
        self.log_start_offset = parts.log_start_offset
        self.log_end_offset = parts.log_end_offset
        self.synced_offset = parts.synced_offset
        self.producer_files = parts.producer_files
        self.has_changed = parts.has_changed
        self.lookup = Lookup(parts.segments)
        self.unsynced = unsynced
        self._failure: BaseException | None = None
        self._last_sync_ms = clock.now_ms()
        self._reading = Reading(parts.topic, parts.partition)
        # Up to where the files last handed out for a sync hold what the log holds: a truncation brings it down.
        self._syncing_end = parts.synced_offset
        self.truncations = 0

    @property
    def config(self) -> LogConfig:
        return self._config

    @config.setter
    def config(self, config: LogConfig) -> None:
        self._config = config
        self._needs_transform = needs_transform(config)
        self._roll_limits: RollLimits | None = None

    @property
    def size_bytes(self) -> int:
        return self.segments.size_bytes

    @property
    def is_offline(self) -> bool:
        return self._failure is not None

    @property
    def recovery_point(self) -> int:
        """Recovery after an unclean stop need not look below this offset."""
        return self.unsynced.recovery_point(self.synced_offset)

    @property
    def first_unstable_offset(self) -> int | None:
        return self.producers.first_unstable_offset

    def last_stable_offset(self, high_watermark: int) -> int:
        """Up to where readers of committed data may read; markers below the high watermark hold up nobody."""
        self.producers.forget_decided(high_watermark)
        first_unstable = self.producers.first_unstable_offset
        if first_unstable is None:
            return high_watermark
        # Records of an open transaction may have been deleted.
        return min(high_watermark, max(first_unstable, self.log_start_offset))

    def is_costly(self, batch: memoryview) -> bool:
        """Whether the topic's configuration makes it long work to append the batch: then it should be prepared elsewhere."""
        return self._needs_transform and is_costly(batch, self._config)

    def append_as_leader(
        self, batch: memoryview | PreparedBatch, leader_epoch: int, *, is_from_client: bool = True
    ) -> AppendInfo:
        """Append one batch at the end. Coordinators of this broker, not clients, may write control batches."""
        self._check_online()
        config = self._config
        now_ms = self._clock.now_ms()
        if isinstance(batch, PreparedBatch):
            # The configuration may have changed since; then what was prepared is not what the topic wants now.
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
        head = patched_head(base_offset, header.length, leader_epoch)
        if marker is not None:
            markers.write_marker(self, segment, (head, batch[HEAD_SIZE:]), header, marker, base_offset)
        else:
            self.write(segment, (head, batch[HEAD_SIZE:]))
        try:
            self._count(segment, batch.nbytes, last_offset, header.max_timestamp_ms, leader_epoch, base_offset)
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
            if marker is not None:
                markers.write_marker(self, segment, (run,), header, marker, header.last_offset)
            else:
                self.write(segment, (run,))
            try:
                self._count_run(segment, run_batches)
            except BaseException as error:
                self.fail(error)
                raise
        return AppendInfo(first.base_offset, last.last_offset, -1, self.log_start_offset, is_duplicate=False)

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
            upper_offset = self._readable_end(offset, upper_offset)
        with self._reading:
            return self.lookup.locate(
                offset, max_bytes, upper_offset, self.log_end_offset, at_least_one_batch=at_least_one_batch
            )

    def read(self, offset: int, max_bytes: int, upper_offset: int, *, at_least_one_batch: bool = True) -> LogSlice:
        """The same as bytes; the last batch may be cut short."""
        found = self.locate(offset, max_bytes, upper_offset, at_least_one_batch=at_least_one_batch)
        with self._reading:
            return LogSlice(b"" if found is None else found.file.read(found.position, found.size))

    def offset_for_timestamp(self, timestamp_ms: int, upper_offset: int) -> TimestampedOffset | None:
        """The first record below `upper_offset` that is at least as late as `timestamp_ms`."""
        found = time_search.run_now(self.search_timestamp(timestamp_ms))
        return found if found is not None and found.offset < upper_offset else None

    def offset_of_max_timestamp(self) -> TimestampedOffset | None:
        return time_search.run_now(self.search_max_timestamp())

    def search_timestamp(self, timestamp_ms: int) -> TimeSearch:
        """The first record that is at least as late as `timestamp_ms`, found in steps."""
        with self._reading:
            return (yield from time_search.search(self.segments, timestamp_ms, self.log_start_offset))

    def search_max_timestamp(self) -> TimeSearch:
        """The first record with the largest timestamp, found in steps."""
        with self._reading:
            return (yield from time_search.search_largest(self.segments, self.log_start_offset))

    def epoch_end_offset(self, leader_epoch: int) -> tuple[int, int]:
        """The largest epoch up to `leader_epoch`, and its end; (-1, -1) if it is not known."""
        return self.leader_epochs.end_offset(leader_epoch, self.log_end_offset)

    def aborted_transactions(
        self, start_offset: int, upper_offset: int, read: FileRange | None = None
    ) -> list[tuple[int, int]]:
        """(producer id, first offset) of the aborted transactions that touch a range of offsets, or what was read of it."""
        found: list[tuple[int, int]] = []
        with self._reading:
            for segment in self.segments.since(start_offset):
                if read is not None and len(segment.transaction_index):
                    # A reader far behind needs no list of every abort since.
                    upper_offset, read = self.lookup.end_of(read, start_offset, upper_offset), None
                for aborted in segment.transaction_index.entries():
                    if aborted.last_offset >= start_offset and aborted.first_offset < upper_offset:
                        found.append((aborted.producer_id, aborted.first_offset))
                    if aborted.last_stable_offset >= upper_offset:
                        return found
        return found

    def roll(self, base_offset: int | None = None) -> None:
        """Finish the active segment and begin the next; nothing happens to an empty one. OSError changes nothing."""
        self._check_online()
        try:
            rolling.roll(self, max(self.log_end_offset, base_offset or 0))
        except TornWrite as error:
            self.fail(error)
            raise

    def unsynced_group(self) -> SyncGroup:
        """What must be synced so that `mark_synced(log_end_offset)` is true."""
        group = self.unsynced.group()
        self._syncing_end = self.log_end_offset
        active = self.segments.active.file
        if self.synced_offset < self.log_end_offset and active not in group.files:
            return SyncGroup([*group.files, active], group.directories)
        return group

    def mark_synced(self, up_to_offset: int) -> None:
        """The files last given out are on the device, and so is everything below the offset.

        What was truncated meanwhile does not count, nor what has been appended in its place.
        """
        self.unsynced.mark_synced()
        self.synced_offset = max(self.synced_offset, min(up_to_offset, self._syncing_end))
        self._last_sync_ms = self._clock.now_ms()

    def sync(self) -> None:
        """Make everything durable now, and hold up the caller until it is. For rare moments; a failure is final."""
        try:
            self.leader_epochs.flush()
            self.unsynced.mark_epochs_flushed()
            group = self.unsynced_group()
            for directory in group.directories:
                self._disk.sync_directory(directory)
            for file in group.files:
                file.sync()
        except OSError as error:
            self.fail(error)
            raise
        self.mark_synced(self.log_end_offset)

    def needs_flush(self, now_ms: int) -> bool:
        """Whether `flush.messages` or `flush.ms` asks for a sync."""
        unsynced = self.log_end_offset - self.synced_offset
        return unsynced > 0 and (
            unsynced >= self._config.flush_messages or now_ms - self._last_sync_ms >= self._config.flush_ms
        )

    def assign_topic_id(self, topic_id: UUID) -> None:
        """Say which topic this is, durably from the next sync on."""
        file = self._disk.open_file(f"{self.directory}/{layout.PARTITION_METADATA}")
        file.truncate(0)
        self.topic_id = None
        file.append([layout.format_partition_metadata(topic_id)])
        self.unsynced.add(file, self.segments.active.base_offset)
        self.unsynced.note_directory()
        self.topic_id = topic_id

    def fail(self, error: BaseException) -> None:
        """Refuse writes from now on: what the disk holds is no longer known."""
        self._failure = self._failure or error

    def truncate_to(self, offset: int) -> None:
        """Cut everything from `offset` on; a batch that holds it goes whole."""
        self._check_online()
        self._roll_limits = None
        truncation.truncate_to(self, offset)

    def sync_names(self) -> None:
        """Make removals durable now, before something is done that must not be seen without them."""
        self._disk.sync_directory(self.directory)

    def end_at(self, offset: int) -> None:
        """A truncation has put the end of the log there: nothing beyond it is known to be on the device."""
        self.truncations += 1
        self.log_end_offset = offset
        self.log_start_offset = min(self.log_start_offset, offset)
        self.synced_offset = min(self.synced_offset, offset)
        self._syncing_end = min(self._syncing_end, offset)
        self.lookup.forget_boundaries()
        self.has_changed = True

    def advance_log_start(self, offset: int) -> None:
        """Hide everything below `offset`, and remove the segments that hold nothing else, now or when the disk allows it."""
        self._check_online()
        retention.advance_log_start(self, offset, self._clock.now_ms())

    def apply_retention(self, now_ms: int, high_watermark: int) -> int:
        """Remove what time, size and count no longer keep, never beyond the high watermark; how many segments went."""
        if self.is_offline:
            return 0
        self.producers.expire(now_ms, self._config.producer_id_expiration_ms)
        return retention.apply(self, now_ms, high_watermark)

    def remove_deleted(self, now_ms: int) -> int:
        """Free the space of segments that went `file.delete.delay.ms` ago or earlier; how many files went."""
        return self.segments.remove_deleted(now_ms)

    def now_ms(self) -> int:
        return self._clock.now_ms()

    def close(self, *, clean: bool = True) -> None:
        """Let go of the files; a clean close first makes everything durable, so that the next start reads no data.

        A new log that was not touched has nothing to lose: thousands of them close without a sync.
        """
        if clean and not self.is_offline and self.has_changed:
            self.finish()
            self.sync()
            self.has_changed = False
        self.segments.close()

    def _readable_end(self, offset: int, upper_offset: int) -> int:
        """Where reading ends in an offline log: the kernel may have dropped what it could not write."""
        if offset >= self.synced_offset:
            assert self._failure is not None
            raise self.storage_error(self._failure)
        return min(upper_offset, self.synced_offset)

    def finish(self) -> None:
        """Write down what a start after a clean stop reads instead of the batches; it waits for a sync."""
        try:
            for file in self.segments.active.seal():
                self.unsynced.add(file, self.segments.active.base_offset)
            if self.producer_files.newest_offset != self.log_end_offset:
                snapshot = self.producer_files.write(self.log_end_offset, self.producers)
                self.unsynced.add(snapshot, self.segments.active.base_offset)
                self.unsynced.note_directory()
        except TornWrite as error:
            self.fail(error)
            raise

    def _check_online(self) -> None:
        if self._failure is not None:
            raise self.storage_error(self._failure)

    def storage_error(self, error: BaseException) -> ApiError:
        return ApiError(
            ErrorCode.kafka_storage_error, f"{self.topic}-{self.partition} is offline or cannot be written: {error}"
        )

    def _segment_for(
        self, base_offset: int, last_offset: int, size: int, max_timestamp_ms: int, now_ms: int
    ) -> Segment:
        """The active segment, or a new one if the batches do not belong there; ready to count what is written to it."""
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
            if not must_roll(segment, self._config, size, last_offset, max_timestamp_ms, now_ms):
                segment.prepare()
                self._roll_limits = roll_limits(segment, self._config)
                return segment
            if size > self._config.segment_bytes:
                raise ApiError(
                    ErrorCode.record_list_too_large,
                    f"{size} bytes do not fit into segment.bytes={self._config.segment_bytes}",
                )
            self.roll(base_offset)
        except OSError as error:
            raise self.storage_error(error) from error
        except CorruptBatch as error:
            raise ApiError(ErrorCode.corrupt_message, f"{self.topic}-{self.partition}: {error}") from error
        return self.segments.active

    def write(self, segment: Segment, pieces: Sequence[Buffer]) -> None:
        try:
            segment.write(pieces)
        except OSError as error:
            if isinstance(error, TornWrite):
                self.fail(error)
            raise self.storage_error(error) from error

    def _count(
        self,
        segment: Segment,
        size: int,
        last_offset: int,
        max_timestamp_ms: int,
        leader_epoch: int,
        base_offset: int,
    ) -> None:
        """A batch is in the file: index it, and move the end of the log behind it. In memory alone."""
        segment.note(size, last_offset, max_timestamp_ms, self._config.index_interval_bytes)
        if leader_epoch > self.leader_epochs.latest:
            self.leader_epochs.assign(leader_epoch, base_offset)
        self.log_end_offset = last_offset + 1
        self.lookup.note_boundary(last_offset + 1, segment.size)
        self.has_changed = True

    def _count_run(self, segment: Segment, batches: Sequence[FollowerBatch]) -> None:
        for header, marker in batches:
            self._count(
                segment,
                header.size,
                header.last_offset,
                header.max_timestamp_ms,
                header.leader_epoch,
                header.base_offset,
            )
            if marker is not None:
                self.producers.complete(header, marker, header.last_offset)
            elif header.has_producer and not header.is_control:
                self.producers.update(header, header.base_offset, header.max_timestamp_ms, header.max_timestamp_ms)
