"""Run cleanings and read what they leave, for the tests of compaction."""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from typing import NamedTuple, TypeVar

from catchment.ports.disk import Disk
from catchment.protocol.batch import BatchHeader, check, iterate_headers
from catchment.protocol.records import Record, encode_batch, read_records
from catchment.storage.compaction.plan import CompactionJob, CompactionResult, find_dirty_section, find_sources, plan
from catchment.storage.compaction.rewrite import rewrite
from catchment.storage.config import LogConfig
from catchment.storage.log import Log

Result = TypeVar("Result")

COMPACTED = LogConfig(
    segment_bytes=600,
    index_interval_bytes=100,
    cleanup_policy=frozenset({"compact"}),
    delete_retention_ms=10_000,
    min_cleanable_dirty_ratio=0.0,
)
MANY_KEYS = 1 << 20


class Kept(NamedTuple):
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


def keyed(
    *pairs: tuple[bytes, bytes | None],
    timestamp_ms: int,
    producer_id: int = -1,
    sequence: int = -1,
    is_transactional: bool = False,
    compression: int = 0,
) -> memoryview:
    """What a producer sends: one record for each pair, a millisecond apart."""
    return memoryview(
        encode_batch(
            [
                Record(key, value, offset_delta=delta, timestamp_delta_ms=delta)
                for delta, (key, value) in enumerate(pairs)
            ],
            base_timestamp_ms=timestamp_ms,
            producer_id=producer_id,
            producer_epoch=0 if producer_id >= 0 else -1,
            base_sequence=sequence,
            is_transactional=is_transactional,
            compression=compression,
        )
    )


def run(steps: Generator[None, None, Result]) -> Result:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            result: Result = end.value
            return result


def job_for(log: Log, clean_offset: int | None = None, most_keys: int = MANY_KEYS) -> CompactionJob | None:
    """The next cleaning of a log whose records are all below the high watermark; None if nothing is dirty."""
    now_ms = log.now_ms()
    dirty = find_dirty_section(log, clean_offset, log.last_stable_offset(log.log_end_offset), now_ms)
    return plan(log, dirty, now_ms, most_keys) if dirty.dirty_bytes else None


def swap_all(log: Log, job: CompactionJob, result: CompactionResult) -> Iterator[None]:
    for group, cleaned in zip(job.groups, result.cleaned, strict=False):
        sources = find_sources(log, job, group)
        assert sources is not None
        log.replace_segments(sources, cleaned)
        yield


def clean(disk: Disk, log: Log, clean_offset: int | None = None, most_keys: int = MANY_KEYS) -> int | None:
    """Clean once; the offset up to which the log is clean now."""
    job = job_for(log, clean_offset, most_keys)
    if job is None:
        return clean_offset
    result = run(rewrite(disk, job))
    for _ in swap_all(log, job, result):
        pass
    return result.end_offset


def batches(log: Log) -> list[tuple[BatchHeader, list[Record]]]:
    """Every batch of every segment, each checked."""
    found = []
    for segment in log.segments:
        data = memoryview(segment.file.read(0, segment.size))
        for position, header in iterate_headers(data):
            batch = data[position : position + header.size]
            check(batch)
            found.append((header, list(read_records(batch, 1 << 20))))
    return found


def data_records(log: Log) -> list[Kept]:
    """Every record that is not a marker, aborted or not."""
    return [kept for header, records in batches(log) if not header.is_control for kept in _kept(header, records)]


def _kept(header: BatchHeader, records: Sequence[Record]) -> list[Kept]:
    return [
        Kept(
            header.base_offset + record.offset_delta,
            record.key,
            record.value,
            header.base_timestamp_ms + record.timestamp_delta_ms,
        )
        for record in records
    ]
