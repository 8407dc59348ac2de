"""Reading the files of a partition offline, and finding what is wrong with them.

Nothing is written and nothing is locked, so it works on a copy, on another machine's files and beside a running broker,
whose newest batch may then look torn.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from catchment.cli.records.record_json import encode_bytes
from catchment.protocol.batch import HEADER_SIZE, LOG_OVERHEAD, BatchHeader, CorruptBatch, check, read_header
from catchment.protocol.compression import Compression
from catchment.protocol.records import Record, read_records
from catchment.storage.layout import OFFSET_INDEX, TIME_INDEX, parse_file_name
from catchment.storage.segments.index import OFFSET_ENTRY, TIME_ENTRY

LARGEST_UNPACKED_BYTES = 1 << 30


@dataclass
class SegmentView:
    """One segment up to the first damage: the positions of its batches, and its problems."""

    path: Path
    base_offset: int
    positions: dict[int, BatchHeader] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def record_count(self) -> int:
        return sum(header.record_count for header in self.positions.values())


def read_batches(segment: SegmentView) -> Iterator[tuple[int, BatchHeader, bytes]]:
    """Position, header and bytes of each batch, up to the first that is damaged, which becomes a problem."""
    next_offset = segment.base_offset
    with segment.path.open("rb") as file:
        end = segment.path.stat().st_size
        position = 0
        while position < end:
            try:
                data = _read_batch(file.read(HEADER_SIZE), file.read, end - position)
                header = check(memoryview(data))
                if header.last_offset_delta < 0 or header.base_offset < next_offset:
                    raise CorruptBatch(f"offset {header.base_offset} where {next_offset} or more was due")
            except CorruptBatch as error:
                segment.problems.append(f"{segment.path.name}: position {position}: {error}")
                return
            segment.positions[position] = header
            yield position, header, data
            next_offset = header.next_offset
            position += header.size


def _read_batch(head: bytes, read: Any, left: int) -> bytes:
    if len(head) < HEADER_SIZE:
        raise CorruptBatch(f"{len(head)} bytes are too few for a batch")
    header = read_header(head)
    if header.length < HEADER_SIZE - LOG_OVERHEAD:
        raise CorruptBatch(f"length {header.length}")
    if header.size > left:
        raise CorruptBatch(f"a batch of {header.size} bytes, of which the file has {left}")
    body: bytes = read(header.size - HEADER_SIZE)
    return head + body


def describe_batch(position: int, header: BatchHeader) -> dict[str, Any]:
    """A batch's header for JSON; the table shows most of it."""
    return {
        "position": position,
        "base_offset": header.base_offset,
        "last_offset": header.last_offset,
        "records": header.record_count,
        "bytes": header.size,
        "leader_epoch": header.leader_epoch,
        "compression": codec_name(header.compression),
        "timestamp_type": "LogAppendTime" if header.is_log_append_time else "CreateTime",
        "base_timestamp": header.base_timestamp_ms,
        "max_timestamp": header.max_timestamp_ms,
        "producer_id": header.producer_id,
        "producer_epoch": header.producer_epoch,
        "base_sequence": header.base_sequence,
        "last_sequence": header.last_sequence,
        "transactional": header.is_transactional,
        "control": header.is_control,
        "delete_horizon": header.has_delete_horizon,
        "crc": header.crc,
    }


def codec_name(codec: int) -> str:
    return Compression(codec).name.lower() if codec in list(Compression) else f"codec {codec}"


def describe_records(segment: SegmentView, header: BatchHeader, data: bytes) -> list[dict[str, Any]]:
    """The records of a batch; what does not unpack becomes a problem of the segment."""
    try:
        return [_describe_record(header, record) for record in read_records(data, LARGEST_UNPACKED_BYTES)]
    except (CorruptBatch, ValueError) as error:
        segment.problems.append(f"{segment.path.name}: batch at offset {header.base_offset}: {error}")
        return []


def _describe_record(header: BatchHeader, record: Record) -> dict[str, Any]:
    timestamp_ms = header.base_timestamp_ms + record.timestamp_delta_ms
    return {
        "offset": header.base_offset + record.offset_delta,
        "timestamp": header.max_timestamp_ms if header.is_log_append_time else timestamp_ms,
        "key": encode_bytes(record.key),
        "value": encode_bytes(record.value),
        "headers": [[name, encode_bytes(value)] for name, value in record.headers],
    }


def read_index(path: Path) -> tuple[list[tuple[int, int]], list[str]]:
    """The entries of an offset or time index as absolute values, and what is wrong with the file alone."""
    name = parse_file_name(path.name)
    assert name is not None
    entry: struct.Struct = OFFSET_ENTRY if name.suffix == OFFSET_INDEX else TIME_ENTRY
    data = path.read_bytes()
    problems = [] if len(data) % entry.size == 0 else [f"{path.name}: {len(data)} bytes are no whole number of entries"]
    entries: list[tuple[int, int]] = []
    for first, second in entry.iter_unpack(data[: len(data) - len(data) % entry.size]):
        # Kafka preallocates the index of the active segment: zeros follow the last entry.
        if (first, second) == (0, 0) and (entries or name.suffix == TIME_INDEX or not any(data)):
            break
        pair = (name.offset + first, second) if name.suffix == OFFSET_INDEX else (first, name.offset + second)
        if entries and (pair[0] <= entries[-1][0] or pair[1] < entries[-1][1]):
            problems.append(f"{path.name}: entry {pair} does not follow {entries[-1]}")
        entries.append(pair)
    return entries, problems


def check_offset_index(segment: SegmentView, entries: list[tuple[int, int]]) -> list[str]:
    """Each entry must name the last offset of the batch at its position."""
    problems = []
    for offset, position in entries:
        header = segment.positions.get(position)
        if header is None:
            problems.append(f"{segment.path.stem}{OFFSET_INDEX}: no batch at position {position} (offset {offset})")
        elif header.last_offset != offset:
            problems.append(
                f"{segment.path.stem}{OFFSET_INDEX}: the batch at position {position} ends at offset"
                f" {header.last_offset}, not {offset}"
            )
    return problems


def check_time_index(segment: SegmentView, entries: list[tuple[int, int]]) -> list[str]:
    """Each entry must name the latest time so far, and an offset in the batch that has it."""
    problems = []
    batches = iter(segment.positions.values())
    latest_ms, header = -1, None
    for timestamp_ms, offset in entries:
        while header is None or header.last_offset < offset:
            header = next(batches, None)
            if header is None:
                problems.append(f"{segment.path.stem}{TIME_INDEX}: no batch holds offset {offset}")
                return problems
            latest_ms = max(latest_ms, header.max_timestamp_ms)
        if latest_ms != timestamp_ms:
            problems.append(
                f"{segment.path.stem}{TIME_INDEX}: the latest time up to offset {offset} is {latest_ms}, not {timestamp_ms}"
            )
    return problems
