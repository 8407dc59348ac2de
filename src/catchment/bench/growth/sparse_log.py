"""A log of any size that takes next to no disk: real batch headers and indexes, and holes instead of records.

Each batch has one record of zeros, so it can be decoded. Its CRC is that of the first batch, which neither opening after a clean
shutdown nor a lookup reads.
"""

from __future__ import annotations

import random
import time
from dataclasses import dataclass
from pathlib import Path

from catchment.ports.clock import SystemClock
from catchment.ports.real_disk import RealDisk
from catchment.protocol.records import Record, encode_batch
from catchment.storage import layout
from catchment.storage.config import LogConfig
from catchment.storage.producers.snapshots import ProducerSnapshots
from catchment.storage.producers.state import ProducerState
from catchment.storage.recovery import open_log
from catchment.storage.segments.index import OFFSET_ENTRY, TIME_ENTRY

SEGMENT_BYTES = 1 << 30
_BATCH_BYTES = 2 << 20
_OFFSETS_A_BATCH = 1_000
_MILLISECONDS_A_BATCH = 1_000
_FIRST_TIMESTAMP_MS = 1_700_000_000_000
_BATCHES_A_SEGMENT = SEGMENT_BYTES // (_BATCH_BYTES + 256)
_HEAD_BYTES = 128
_FETCH_BYTES = 1 << 16
_SEED = 7


@dataclass(frozen=True, slots=True)
class SeekTimes:
    """What one log took."""

    open_seconds: float
    first_offset_seek_seconds: float
    offset_seek_seconds: float
    first_timestamp_seek_seconds: float
    timestamp_seek_seconds: float


def write_sparse_log(directory: Path, segment_count: int) -> int:
    """Write the files of a log that was closed cleanly, and return its end offset."""
    directory.mkdir(parents=True)
    value = bytes(_BATCH_BYTES)
    size = len(_batch(0, value))
    for segment in range(segment_count):
        base = segment * _BATCHES_A_SEGMENT
        name = directory / layout.file_name(base * _OFFSETS_A_BATCH, "")
        offsets, times = bytearray(), bytearray()
        template = bytearray(_batch(0, value)[:_HEAD_BYTES])
        with name.with_suffix(layout.LOG).open("wb") as log:
            for number in range(_BATCHES_A_SEGMENT):
                template[:8] = ((base + number) * _OFFSETS_A_BATCH).to_bytes(8, "big")
                template[27:43] = _timestamp_ms(base + number).to_bytes(8, "big") * 2
                log.seek(number * size)
                log.write(template)
                last = (number + 1) * _OFFSETS_A_BATCH - 1
                offsets += OFFSET_ENTRY.pack(last, number * size)
                times += TIME_ENTRY.pack(_timestamp_ms(base + number), last)
            log.truncate(_BATCHES_A_SEGMENT * size)
        name.with_suffix(layout.OFFSET_INDEX).write_bytes(offsets)
        name.with_suffix(layout.TIME_INDEX).write_bytes(times)
    end_offset = segment_count * _BATCHES_A_SEGMENT * _OFFSETS_A_BATCH
    ProducerSnapshots(RealDisk(), str(directory), []).write(end_offset, ProducerState()).sync()
    return end_offset


def _batch(number: int, value: bytes) -> bytes:
    return encode_batch(
        [Record(None, value)],
        base_offset=number * _OFFSETS_A_BATCH,
        base_timestamp_ms=_timestamp_ms(number),
        last_offset_delta=_OFFSETS_A_BATCH - 1,
    )


def _timestamp_ms(number: int) -> int:
    return _FIRST_TIMESTAMP_MS + number * _MILLISECONDS_A_BATCH


def measure_seeks(directory: Path, end_offset: int, seeks: int) -> SeekTimes:
    """Open the log and look up positions all over it, at the same fractions of any log."""
    began = time.perf_counter()
    log = open_log(
        RealDisk(), SystemClock(), str(directory), "sparse", 0, LogConfig(), is_clean=True, recovery_point=end_offset
    )
    open_seconds = time.perf_counter() - began
    if log.log_end_offset != end_offset:
        raise RuntimeError(f"the log ends at {log.log_end_offset} and not at {end_offset}")
    places = random.Random(_SEED)
    by_offset, by_timestamp = [], []
    for _ in range(seeks):
        batch = places.randrange(end_offset // _OFFSETS_A_BATCH)
        began = time.perf_counter()
        found = log.locate(batch * _OFFSETS_A_BATCH, _FETCH_BYTES, end_offset, at_least_one_batch=False)
        by_offset.append(time.perf_counter() - began)
        began = time.perf_counter()
        placed = log.offset_for_timestamp(_timestamp_ms(batch), end_offset)
        by_timestamp.append(time.perf_counter() - began)
        if found is None or placed is None or placed.offset != batch * _OFFSETS_A_BATCH:
            raise RuntimeError(f"batch {batch} was not found at its position: {found}, {placed}")
    log.close(clean=False)
    return SeekTimes(open_seconds, by_offset[0], _median(by_offset[1:]), by_timestamp[0], _median(by_timestamp[1:]))


def _median(values: list[float]) -> float:
    return sorted(values)[len(values) // 2]
