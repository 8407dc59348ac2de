"""A log directory with a history, a model of what it must and what it may hold, and the checks after something went wrong."""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import NamedTuple
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from tests.storage.compaction.cleaning import MANY_KEYS, keyed, run
from tests.storage.faults.disk import FaultDisk, copy_of
from tests.storage.logs import NOW_MS, TOPIC_ID, check_indexes, marker

from catchment.ports.clock import ManualClock
from catchment.ports.disk import Disk
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.batch import iterate_headers
from catchment.protocol.errors import ApiError
from catchment.protocol.records import read_records
from catchment.storage.compaction.plan import CompactionJob, CompactionResult, find_dirty_section, find_sources, plan
from catchment.storage.compaction.rewrite import rewrite
from catchment.storage.config import LogConfig
from catchment.storage.directory import LogDirectory
from catchment.storage.log import Log

ROOT = "/logs"
TOPIC = "flow"
CONFIG = LogConfig(
    segment_bytes=700,
    index_interval_bytes=150,
    cleanup_policy=frozenset({"compact", "delete"}),
    min_cleanable_dirty_ratio=0.0,
    file_delete_delay_ms=1000,
)
LATER_MS = NOW_MS + 10_000
PLAIN, IDEMPOTENT, ABORTING, OPEN = -1, 1, 7, 8

Values = dict[int, bytes | None]


class Facts(NamedTuple):
    """The state of a log beyond its records; a scan of its files must find the same."""

    end_offset: int
    visible: Values
    producers: list[tuple[int | None, ...]]
    aborted: list[tuple[int, int]]
    epochs: list[int]
    first_unstable_offset: int | None
    topic_id: UUID | None


def visible(log: Log, upper_offset: int | None = None) -> Values:
    """The data records that a consumer gets from the log's start on, fetch by fetch."""
    upper_offset = log.log_end_offset if upper_offset is None else upper_offset
    offset, seen = log.log_start_offset, Values()
    while offset < upper_offset and (data := log.read(offset, 300, upper_offset)):
        for position, header in iterate_headers(data):
            assert header.last_offset >= offset
            for record in read_records(data[position : position + header.size], 1 << 20):
                record_offset = header.base_offset + record.offset_delta
                if not header.is_control and record_offset >= offset:
                    assert record_offset not in seen
                    seen[record_offset] = record.value
            offset = header.next_offset
    return seen


def facts(log: Log, start_offset: int) -> Facts:
    """Epochs only from `start_offset` on: those of hidden records need not be found after a crash."""
    log.producers.forget_replicated(log.log_end_offset)
    return Facts(
        log.log_end_offset,
        visible(log),
        sorted(
            (entry.producer_id, entry.epoch, entry.last_sequence, entry.last_offset, entry.transaction_first_offset)
            for entry in log.producers
        ),
        sorted(log.aborted_transactions(log.log_start_offset, log.log_end_offset)),
        [log.leader_epochs.at(offset) for offset in range(start_offset, log.log_end_offset)],
        log.first_unstable_offset,
        log.topic_id,
    )


class World:
    """`current` is what the log has appended, `durable` what was synced; `allowed` also has what may have been written."""

    def __init__(self, *, sync_acks: bool) -> None:
        self.config = replace(CONFIG, sync_acks=sync_acks)
        self.disk = FaultDisk(MemoryDisk())
        self.clock = ManualClock(NOW_MS)
        self.current, self.durable = Values(), Values()
        self.allowed: dict[int, set[bytes | None]] = {}
        self.removable: set[int] = set()
        self.durable_start = 0
        self.highest_start = 0
        self.sequences: dict[int, int] = {}
        self.epoch = 0
        self.count = 0
        self.is_closed = False
        self.job: CompactionJob | None = None
        self.cleaned: CompactionResult | None = None
        self.directory = self.start(self.disk)
        self.directory.create_log(TOPIC, 0, TOPIC_ID, self.config)
        self._fill()

    @property
    def log(self) -> Log:
        return self.directory.logs[TOPIC, 0]

    def start(self, disk: Disk) -> LogDirectory:
        directory = LogDirectory(disk, self.clock, ROOT, node_id=1, cluster_id="cluster", new_id=self._new_id)
        directory.open_logs(lambda _: self.config)
        return directory

    def _new_id(self) -> UUID:
        self.count += 1
        return UUID(int=self.count)

    def _fill(self) -> None:
        """Some segments with superseded keys, an aborted transaction, an open one, two epochs; the last few not synced."""
        for _ in range(4):
            self.append()
        self.append(ABORTING)
        self.append()
        self.end_transaction(ABORTING, is_commit=False)
        self.epoch = 1
        for producer in (IDEMPOTENT, PLAIN, IDEMPOTENT, OPEN, PLAIN, PLAIN, OPEN):
            self.append(producer)
        self.log.roll()
        for _ in range(4):
            self.append(IDEMPOTENT)
        self.sync()
        self.directory.checkpoint()
        self.append()
        self.append(IDEMPOTENT)

    def batch(self, producer: int = PLAIN, sequence: int | None = None) -> tuple[memoryview, bytes]:
        self.count += 1
        key, value = b"same" if self.count % 3 == 0 else b"key %d" % self.count, b"value %d" % self.count * 4
        if sequence is None:
            sequence = self.sequences.get(producer, 0) if producer != PLAIN else -1
        data = keyed(
            (key, value),
            timestamp_ms=NOW_MS + self.count,
            producer_id=producer,
            sequence=sequence,
            is_transactional=producer in (ABORTING, OPEN),
        )
        return data, value

    def append(self, producer: int = PLAIN) -> None:
        data, value = self.batch(producer)
        offset = self.log.log_end_offset
        self.allowed.setdefault(offset, set()).add(value)
        info = self.log.append_as_leader(data, self.epoch)
        assert (info.base_offset, info.last_offset, info.is_duplicate) == (offset, offset, False)
        self._took(offset, value, producer)

    def _took(self, offset: int, value: bytes, producer: int) -> None:
        self.current[offset] = value
        self.removable.add(offset)
        if producer != PLAIN:
            self.sequences[producer] = self.sequences.get(producer, 0) + 1

    def follow(self, *, is_aborting: bool) -> None:
        """Append as a follower what a leader with the same history would send next."""
        base, pieces, found = self.log.log_end_offset, [], {}
        for offset in range(base, base + 3):
            data, value = self.batch()
            if is_aborting and offset == base + 1:
                data = marker(OPEN, is_commit=False)
            else:
                found[offset] = value
                self.allowed.setdefault(offset, set()).add(value)
            head = bytearray(data)
            head[:8] = offset.to_bytes(8, "big")
            head[12:16] = self.epoch.to_bytes(4, "big")
            pieces.append(bytes(head))
        try:
            self.log.append_as_follower(memoryview(b"".join(pieces)))
        finally:
            for offset, value in found.items():
                if offset < self.log.log_end_offset:
                    self._took(offset, value, PLAIN)

    def end_transaction(self, producer: int, *, is_commit: bool) -> None:
        self.log.append_as_leader(marker(producer, is_commit=is_commit), self.epoch, is_from_client=False)

    def sync(self) -> None:
        current = dict(self.current)
        self.log.sync()
        self.durable = current

    def truncate(self, offset: int) -> None:
        for values in (self.current, self.durable):
            for known in [known for known in values if known >= offset]:
                del values[known]
        self.log.truncate_to(offset)
        for known in [known for known in self.allowed if known >= offset]:
            del self.allowed[known]
        self.directory.checkpoint()

    def rewrite(self) -> None:
        """Clean into files beside the log, as a worker does."""
        log = self.log
        self.job = self.cleaned = None
        dirty = find_dirty_section(log, None, log.last_stable_offset(log.log_end_offset), self.clock.now_ms())
        job = plan(log, dirty, self.clock.now_ms(), MANY_KEYS)
        self.cleaned = run(rewrite(self.disk, job))
        self.job = job

    def swap(self) -> None:
        assert self.job is not None
        assert self.cleaned is not None
        for group, cleaned in zip(self.job.groups, self.cleaned.cleaned, strict=False):
            sources = find_sources(self.log, self.job, group)
            if sources is None:
                break
            self.log.replace_segments(sources, cleaned)

    def check_values(self, log: Log, required: Values, upper_offset: int | None = None) -> None:
        """Nothing that must be there is missing, unless compaction may have removed it; nothing else is there."""
        seen = visible(log, upper_offset)
        for offset, value in seen.items():
            assert value in self.allowed.get(offset, ()), f"{value!r} at {offset} was never sent"
        latest = {bytes(value): offset for offset, value in sorted(required.items()) if value is not None}
        assert len(latest) == len(required)
        bound = log.log_end_offset if upper_offset is None else upper_offset
        missing = [offset for offset in required if offset not in seen and log.log_start_offset <= offset < bound]
        if missing:
            assert self.job is not None, f"{missing} are lost"
            assert set(missing) <= self.removable

    def check_agrees_with_a_scan(self, disk: MemoryDisk, log: Log) -> None:
        check_indexes(log)
        copy = copy_of(disk)
        for name in ("recovery-point-offset-checkpoint", ".kafka_cleanshutdown"):
            copy.remove_file(f"{ROOT}/{name}")
        directory = LogDirectory(copy, self.clock, ROOT, node_id=1, cluster_id="cluster", new_id=self._new_id)
        directory.open_logs(lambda _: self.config)
        scanned = directory.logs[log.topic, log.partition]
        assert scanned.log_start_offset <= log.log_start_offset
        scanned.log_start_offset = log.log_start_offset
        self.highest_start = max(self.highest_start, log.log_start_offset)
        assert facts(scanned, self.highest_start) == facts(log, self.highest_start)

    def check_goes_on(self) -> None:
        """Appends get the next offsets, become durable, and are there after any kind of restart."""
        end_offset = self.log.log_end_offset
        for producer in (PLAIN, IDEMPOTENT):
            entry = self.log.producers.get(producer)
            self.sequences[producer] = 0 if entry is None or not entry.batches else entry.last_sequence + 1
            self.append(producer)
        self.sync()
        assert self.log.log_end_offset == end_offset + 2
        self.check_values(self.log, self.current)
        self.check_agrees_with_a_scan(self.disk.inner, self.log)

    def check_restart(self, disk: MemoryDisk, required: Values, *, goes_on: bool = True) -> None:
        """A start on this disk finds all that is required, in order, and appends continue."""
        state = (self.disk, self.directory, self.current, self.durable, self.durable_start, dict(self.sequences))
        allowed = {offset: set(values) for offset, values in self.allowed.items()}
        disk.unlock_all()
        self.disk = FaultDisk(disk)
        self.directory = self.start(self.disk)
        log = self.log
        try:
            assert log.log_start_offset >= self.durable_start
            self.check_values(log, required)
            self.check_agrees_with_a_scan(disk, log)
            self.current = self.durable = visible(log)
            if goes_on:
                self.check_goes_on()
        finally:
            self.disk, self.directory, self.current, self.durable, self.durable_start, self.sequences = state
            self.allowed = allowed

    def check_restarts(self, required: Values, seeds: range) -> None:
        """A process that was killed loses nothing; a power loss loses nothing that was synced."""
        self.check_restart(copy_of(self.disk.inner), required, goes_on=False)
        for seed in seeds:
            self.check_restart(self.disk.inner.crash(Random(seed)), self.durable)

    def check_offline(self, required: Values) -> None:
        log = self.log
        with pytest.raises(ApiError) as rejected:
            log.append_as_leader(self.batch()[0], self.epoch)
        assert rejected.value.code is ErrorCode.kafka_storage_error
        end_offset = max(log.log_start_offset, min(log.synced_offset, log.log_end_offset))
        self.check_values(log, {offset: value for offset, value in required.items() if offset < end_offset}, end_offset)
