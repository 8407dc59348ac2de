"""A fetched partition as one Arrow record batch: batches are selected by their headers, records decoded by compiled loops.

Batches are selected as in the Java consumer: control batches and those of aborted transactions have no rows, and the next offset
comes from the headers, because compaction may have removed the last records of a batch or all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from catchment.client.columns.arrays import Longs
from catchment.client.columns.decode_kernels import PAYLOAD
from catchment.client.columns.fetched_batches import FetchedBatches, Mask, read_batches
from catchment.client.columns.record_columns import OffsetRange, Payloads, decode_columns
from catchment.client.columns.schema import record_schema
from catchment.client.errors import ClientError
from catchment.protocol.batch import COMPRESSION_MASK, HEADER_SIZE, MAGIC, TIMESTAMP_TYPE_MASK, CorruptBatch
from catchment.protocol.compression import decompress_into

DEFAULT_UNPACKED_BYTES: Final = 256 << 20
_LATEST_OFFSET: Final = 2**63 - 1
_MAGIC_POSITION: Final = 16

_DAMAGED: Final = (
    "Fetch it again. If the error persists, the replica is damaged: read from another broker, or start after it."
)
_OLD: Final = "Copy the topic with a client of Kafka 3, which writes version-2 batches."


class CorruptRecords(ClientError):
    """Fetched bytes that are not valid record batches."""


class OldMessageFormat(ClientError):
    """Fetched messages of Kafka before 0.11, which have no version-2 batches."""


class Decoded(NamedTuple):
    """The rows, and the offset to fetch next, which is never derived from the rows because offsets have gaps."""

    batch: pa.RecordBatch
    next_offset: int


def decode(
    data: bytes | memoryview,
    columns: Sequence[str],
    *,
    topic: str,
    partition: int,
    start_offset: int,
    end_offset: int | None = None,
    aborted: Sequence[tuple[int, int]] = (),
    validate_crc: bool = True,
    max_unpacked_bytes: int = DEFAULT_UNPACKED_BYTES,
) -> Decoded:
    """The records of one fetched partition with offsets in [start_offset, end_offset). Raises CorruptRecords.

    `aborted` holds (producer id, first offset) as the Fetch response lists them for read_committed. A partial batch at the
    end is ignored: `next_offset` is `start_offset` if there was no whole one. Once `max_unpacked_bytes` are unpacked, the
    following batches are left for the next call at `next_offset`, so that small compressed data cannot fill the memory.
    """
    schema = record_schema(columns)
    offsets = OffsetRange(start_offset, _LATEST_OFFSET if end_offset is None else end_offset)
    view = memoryview(data).cast("B").toreadonly()
    place = f"{topic}-{partition}"
    if len(view) > _MAGIC_POSITION and view[_MAGIC_POSITION] < MAGIC:
        raise OldMessageFormat(f"{place} holds messages of format {view[_MAGIC_POSITION]} at {start_offset}", _OLD)
    try:
        batches = read_batches(view).up_to(offsets.end)
        if validate_crc:
            batches.check_crcs()
        chosen = batches.chosen(batches.gives_rows(offsets.start, offsets.end, aborted))
        payloads, used = unpack(chosen, min(max_unpacked_bytes, LARGEST_BATCH_BYTES))
        following = chosen.headers["base_offset"][used:] if used < len(chosen.positions) else batches.next_offsets[-1:]
        next_offset = max([start_offset, *following[:1].tolist()])
        batch = decode_columns(payloads, offsets, schema, topic, partition)
    except CorruptBatch as cause:
        raise CorruptRecords(f"{place} has damaged records from offset {start_offset} on: {cause}", _DAMAGED) from cause
    return Decoded(batch, min(next_offset, offsets.end))


LARGEST_BATCH_BYTES: Final = 1 << 30
"""The bound on one unpacked batch. With as much before it, the offsets of Arrow's columns still fit into 32 bits."""
_MOST_ROWS: Final = 8 << 20
"""This many of the longest topic name fit into one column."""
_SMALLEST_RECORD_BYTES: Final = 7
_USUAL_GROWTH: Final = 4


def unpack(batches: FetchedBatches, max_bytes: int) -> tuple[Payloads, int]:
    """The records of these batches in one buffer, and the number of batches: at least one if there is one. Raises CorruptBatch.

    Without compression the buffer is that of the fetch. A few bytes may unpack to very many, so one batch has a bound, beyond
    which it is rejected, and all have one, beyond which no further batch is unpacked.
    """
    counts = batches.headers["record_count"]
    _refuse(batches, (counts < 0) | (counts > _MOST_ROWS))
    batches = batches.chosen(slice(max(int(np.searchsorted(np.cumsum(counts), _MOST_ROWS, side="right")), 1)))
    codecs = batches.headers["attributes"] & COMPRESSION_MASK
    if codecs.any():
        buffer, lengths = _decompress(batches, codecs.tolist(), max_bytes)
        starts = np.cumsum(lengths) - lengths
    else:
        lengths = batches.sizes - HEADER_SIZE
        lengths = lengths[: max(int(np.searchsorted(np.cumsum(lengths) - lengths, max_bytes)), 1)]
        buffer = batches.view
        starts = batches.positions[: len(lengths)] + HEADER_SIZE
    return _payloads(batches.chosen(slice(len(lengths))), buffer, starts, lengths), len(lengths)


def _decompress(batches: FetchedBatches, codecs: list[int], max_bytes: int) -> tuple[memoryview, Longs]:
    """The records of all batches, and the length of each batch. The buffer grows if a batch does not fit."""
    target = _allocate(_USUAL_GROWTH * int(batches.sizes.sum()))
    lengths: list[int] = []
    used = 0
    for index, codec in enumerate(codecs):
        if lengths and used >= max_bytes:
            break
        packed = batches.batch(index)[HEADER_SIZE:]
        while (size := decompress_into(codec, packed, target[used : used + LARGEST_BATCH_BYTES])) is None:
            if len(target) - used >= LARGEST_BATCH_BYTES:
                raise CorruptBatch(f"a batch unpacks to more than {LARGEST_BATCH_BYTES} bytes")
            larger = _allocate(min(4 * len(target), used + LARGEST_BATCH_BYTES))
            larger[:used] = target[:used]
            target = larger
        lengths.append(size)
        used += size
    return target[:used].toreadonly(), np.array(lengths, np.int64)


def _allocate(size_bytes: int) -> memoryview:
    # Arrow's pool reuses memory: the pages of a new array would have to be allocated first.
    return memoryview(pa.allocate_buffer(size_bytes)).cast("B")


def _payloads(batches: FetchedBatches, buffer: memoryview, starts: Longs, lengths: Longs) -> Payloads:
    headers = batches.headers
    _refuse(batches, headers["record_count"] > lengths // _SMALLEST_RECORD_BYTES)
    size_bytes = int(lengths.sum())
    if size_bytes >= 1 << 31:
        raise CorruptBatch(f"{size_bytes} bytes of records are too many for one Arrow batch")
    table = np.empty(len(lengths), PAYLOAD)
    table["start"], table["end"], table["count"] = starts, starts + lengths, headers["record_count"]
    table["base_offset"], table["base_timestamp_ms"] = headers["base_offset"], headers["base_timestamp_ms"]
    table["log_append_time_ms"] = headers["max_timestamp_ms"]
    table["is_log_append_time"] = (headers["attributes"] & TIMESTAMP_TYPE_MASK) != 0
    return Payloads(np.frombuffer(buffer, np.uint8), table, int(headers["record_count"].sum()), size_bytes)


def _refuse(batches: FetchedBatches, lying: Mask) -> None:
    for index in np.flatnonzero(lying).tolist():
        offset, count = (batches.headers[name][index] for name in ("base_offset", "record_count"))
        raise CorruptBatch(f"the batch at {offset} claims {count} records in {batches.sizes[index]} bytes")
