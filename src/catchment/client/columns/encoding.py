"""Arrow rows as record batches, ready to be produced to one partition.

The size of a batch is limited before compression, as in librdkafka. Batches that compression does not shrink are sent
uncompressed, so what is sent is never larger.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa

from catchment.client.columns.arrays import Bytes, Longs
from catchment.client.columns.encode_kernels import LARGEST_VARINT_BYTES, Rows, encode_headers, encode_records
from catchment.client.columns.input_columns import binary_rows, header_rows, null_rows, timestamps_ms
from catchment.client.errors import RecordTooLarge
from catchment.client.settings import DEFAULT_BATCH_BYTES, Codec
from catchment.protocol.batch import (
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TRANSACTIONAL_MASK,
    seal,
)
from catchment.protocol.compression import Compression, compress

_NO_LEADER_EPOCH: Final = -1
_LARGEST_RECORD_OVERHEAD_BYTES: Final = 1 + 10 + 5 * LARGEST_VARINT_BYTES


class EncodedBatch(NamedTuple):
    """An encoded batch, and the fields that the broker will check."""

    data: bytes
    record_count: int
    base_sequence: int


class _Producer(NamedTuple):
    """What all batches of one call have in common."""

    codec: Compression
    level: int | None
    producer_id: int
    epoch: int
    is_transactional: bool


class _Limits(NamedTuple):
    """The largest size of a batch, and of one with a single record."""

    batch_bytes: int
    record_bytes: int


class _Columns(NamedTuple):
    """The rows to be encoded, as the compiled loops read them."""

    timestamps_ms: Longs
    keys: Rows
    values: Rows
    headers: tuple[Bytes, Longs]


def encode(
    rows: pa.RecordBatch | pa.Table,
    *,
    codec: Codec = "none",
    level: int | None = None,
    max_batch_bytes: int = DEFAULT_BATCH_BYTES,
    max_record_bytes: int | None = None,
    timestamp_ms: int,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_transactional: bool = False,
) -> list[EncodedBatch]:
    """Encode rows of one partition, in order, as batches of at most `max_batch_bytes`.

    A larger row has a batch of its own if that is at most `max_record_bytes`; otherwise RecordTooLarge is raised.

    The column `value` is required, `key`, `headers` and `timestamp` are optional, and others are ignored. A row without a
    timestamp gets `timestamp_ms`. Sequence numbers continue from batch to batch, and wrap around after 2³¹ − 1.
    """
    if not HEADER_SIZE < max_batch_bytes < 1 << 31:
        raise ValueError(
            f"max_batch_bytes is {max_batch_bytes}: a batch has {HEADER_SIZE} bytes before its records, and 2³¹ − 1 in all"
        )
    producer = _Producer(Compression[codec.upper()], level, producer_id, producer_epoch, is_transactional)
    # A table's chunks may be small, and so would be their batches.
    chunks = rows.combine_chunks().to_batches() if isinstance(rows, pa.Table) else [rows]
    encoded: list[EncodedBatch] = []
    first_row = 0
    limits = _Limits(max_batch_bytes, max(max_batch_bytes, max_record_bytes or 0))
    for chunk in chunks:
        encoded += _encode_chunk(chunk, producer, limits, timestamp_ms, base_sequence, first_row)
        base_sequence = _advanced(base_sequence, chunk.num_rows)
        first_row += chunk.num_rows
    return encoded


def _encode_chunk(
    rows: pa.RecordBatch,
    producer: _Producer,
    limits: _Limits,
    timestamp_ms: int,
    base_sequence: int,
    rows_before: int,
) -> list[EncodedBatch]:
    columns = _columns(rows, timestamp_ms)
    scratch = np.empty(min(limits.batch_bytes, HEADER_SIZE + _bound_bytes(columns)), np.uint8)
    totals = np.zeros(2, np.int64)
    encoded = []
    row = 0
    while row < rows.num_rows:
        count = encode_records(row, *columns, scratch[HEADER_SIZE:], totals)
        if not count and limits.record_bytes > limits.batch_bytes:
            alone = _Limits(limits.record_bytes, limits.record_bytes)
            one = rows.slice(row, 1)
            encoded += _encode_chunk(one, producer, alone, timestamp_ms, base_sequence, rows_before + row)
            base_sequence = _advanced(base_sequence, 1)
            row += 1
            continue
        if not count:
            raise RecordTooLarge(
                f"row {rows_before + row} does not fit into a batch of {limits.batch_bytes} bytes",
                "Raise max_record_bytes, and max.message.bytes of the topic with it, or store the value elsewhere.",
            )
        size_bytes, latest_ms = map(int, totals)
        times_ms = (int(columns.timestamps_ms[row]), latest_ms)
        data = _finish(scratch.data[: HEADER_SIZE + size_bytes], count, times_ms, base_sequence, producer)
        encoded.append(EncodedBatch(data, count, base_sequence))
        base_sequence = _advanced(base_sequence, count)
        row += count
    return encoded


def _advanced(sequence: int, count: int) -> int:
    return NO_SEQUENCE if sequence == NO_SEQUENCE else (sequence + count) & 0x7FFFFFFF


def _columns(rows: pa.RecordBatch, timestamp_ms: int) -> _Columns:
    names = rows.schema.names
    if "value" not in names:
        raise ValueError(f"there is no column value among {', '.join(names)}")
    return _Columns(
        timestamps_ms(rows.column("timestamp") if "timestamp" in names else None, rows.num_rows, timestamp_ms),
        binary_rows("key", rows.column("key")) if "key" in names else null_rows(rows.num_rows),
        binary_rows("value", rows.column("value")),
        _headers(rows.column("headers")) if "headers" in names else (np.zeros(0, np.uint8), np.zeros(0, np.int64)),
    )


def _headers(column: pa.Array) -> tuple[Bytes, Longs]:
    """The headers of each row in Kafka's format, and the offsets of the rows."""
    lists, names, values = header_rows(column)
    header_count = int(lists[0][-1] - lists[0][0])
    bound_bytes = len(column) * LARGEST_VARINT_BYTES + header_count * 2 * LARGEST_VARINT_BYTES
    bound_bytes += sum(int(part[1][lists[0][-1]] - part[1][lists[0][0]]) for part in (names, values))
    data, offsets = np.empty(bound_bytes, np.uint8), np.zeros(len(column) + 1, np.int64)
    nameless_row = encode_headers(lists, names, values, data, offsets)
    if nameless_row >= 0:
        raise ValueError(f"row {nameless_row} has a header without a key: Kafka requires one")
    return data, offsets


def _bound_bytes(columns: _Columns) -> int:
    """An upper bound of the encoded size, so that few rows need no large buffer."""
    fields = sum(int(offsets[-1] - offsets[0]) for _, offsets, _ in (columns.keys, columns.values))
    return fields + len(columns.headers[0]) + len(columns.timestamps_ms) * _LARGEST_RECORD_OVERHEAD_BYTES


def _finish(batch: memoryview, count: int, times_ms: tuple[int, int], base_sequence: int, producer: _Producer) -> bytes:
    """Compress the records after the space for the header, unless that does not help, and write the header."""
    codec = Compression.NONE
    if producer.codec is not Compression.NONE:
        packed = compress(producer.codec, batch[HEADER_SIZE:], producer.level)
        if HEADER_SIZE + len(packed) < len(batch):
            codec, batch = producer.codec, memoryview(bytearray(HEADER_SIZE) + packed)
    crc = base_offset = 0
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        _NO_LEADER_EPOCH,
        MAGIC,
        crc,
        codec | TRANSACTIONAL_MASK * producer.is_transactional,
        count - 1,
        *times_ms,
        producer.producer_id,
        producer.epoch,
        base_sequence,
        count,
    )
    seal(batch)
    return bytes(batch)
