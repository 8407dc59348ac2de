"""Batches and logs for the tests of storage."""

from __future__ import annotations

from collections.abc import Iterable
from uuid import UUID

from catchment.ports.clock import ManualClock
from catchment.ports.disk import Disk
from catchment.protocol.batch import iterate_headers
from catchment.protocol.records import Record, encode_batch, read_records
from catchment.storage import layout
from catchment.storage.config import LogConfig
from catchment.storage.control_record import TransactionMarker, encode_marker
from catchment.storage.log import Log
from catchment.storage.recovery import create_log, open_log

NOW_MS = 1_700_000_000_000
TOPIC_ID = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
ROOT = "/logs"
DIRECTORY = f"{ROOT}/flow-0"
SMALL = LogConfig(segment_bytes=2000, index_interval_bytes=200)


def batch(
    *values: bytes,
    producer_id: int = -1,
    epoch: int = -1,
    sequence: int = -1,
    timestamp_ms: int = NOW_MS,
    is_transactional: bool = False,
    key: bytes | None = b"k",
    compression: int = 0,
) -> memoryview:
    """What a producer sends: one record for each value."""
    records = [Record(key, value, offset_delta=delta) for delta, value in enumerate(values)]
    return memoryview(
        encode_batch(
            records,
            base_timestamp_ms=timestamp_ms,
            producer_id=producer_id,
            producer_epoch=epoch,
            base_sequence=sequence,
            is_transactional=is_transactional,
            compression=compression,
        )
    )


def marker(producer_id: int, *, is_commit: bool, epoch: int = 0, coordinator_epoch: int = 0) -> memoryview:
    return memoryview(
        encode_marker(
            TransactionMarker(is_commit, coordinator_epoch),
            producer_id=producer_id,
            producer_epoch=epoch,
            timestamp_ms=NOW_MS,
        )
    )


def new_log(disk: Disk, config: LogConfig = SMALL, clock: ManualClock | None = None) -> Log:
    disk.make_directory(ROOT)
    disk.sync_directory("/")
    return create_log(disk, clock or ManualClock(NOW_MS), DIRECTORY, "flow", 0, TOPIC_ID, config)


def reopened(
    disk: Disk,
    config: LogConfig = SMALL,
    *,
    is_clean: bool = False,
    recovery_point: int = 0,
    log_start_offset: int = 0,
    clock: ManualClock | None = None,
) -> Log:
    return open_log(
        disk,
        clock or ManualClock(NOW_MS),
        DIRECTORY,
        "flow",
        0,
        config,
        is_clean=is_clean,
        recovery_point=recovery_point,
        log_start_offset=log_start_offset,
    )


def sync(log: Log) -> None:
    log.sync()


def read_all(log: Log, upper_offset: int | None = None, max_bytes: int = 300) -> list[tuple[int, bytes | None]]:
    """(offset, value) of every record that a consumer sees from the log's start, fetch by fetch."""
    end_offset = log.log_end_offset if upper_offset is None else upper_offset
    offset = log.log_start_offset
    seen: list[tuple[int, bytes | None]] = []
    while offset < end_offset:
        data = log.read(offset, max_bytes, end_offset)
        if not data:
            break
        for position, header in iterate_headers(data):
            seen.extend(
                (header.base_offset + record.offset_delta, record.value)
                for record in read_records(data[position : position + header.size], 1 << 20)
                if header.base_offset + record.offset_delta >= offset
            )
            offset = header.next_offset
    return seen


def values_of(records: Iterable[tuple[int, bytes | None]]) -> list[bytes | None]:
    return [value for _, value in records]


def check_indexes(log: Log) -> None:
    """What DumpLogSegments checks, and that the sizes agree."""
    for segment in log.segments:
        assert segment.file.size == segment.size
        located = dict(iterate_headers(segment.file.read(0, segment.size)))
        previous = -1
        for relative_offset, position in segment.offset_index.entries():
            assert located[position].last_offset == segment.base_offset + relative_offset
            assert relative_offset > previous
            previous = relative_offset
        last = (-1, -1)
        for timestamp_ms, relative_offset in segment.time_index.entries():
            assert timestamp_ms > last[0]
            assert relative_offset > last[1]
            last = timestamp_ms, relative_offset
            holder = next(
                header for header in located.values() if header.last_offset >= segment.base_offset + relative_offset
            )
            assert holder.max_timestamp_ms == timestamp_ms
            assert all(
                header.max_timestamp_ms <= timestamp_ms
                for header in located.values()
                if header.last_offset <= segment.base_offset + relative_offset
            )


def names(disk: Disk, suffix: str = "") -> list[str]:
    return [entry.name for entry in disk.list_directory(DIRECTORY) if entry.name.endswith(suffix)]


def path_of(base_offset: int, suffix: str = layout.LOG) -> str:
    return f"{DIRECTORY}/{layout.file_name(base_offset, suffix)}"
