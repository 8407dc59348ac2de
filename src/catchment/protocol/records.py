"""Single records inside a version-2 batch, and whole batches made of them.

The hot path never comes here. Compaction, internal topics, the log dump and tests do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from catchment.protocol.batch import (
    CONTROL_MASK,
    DELETE_HORIZON_MASK,
    HEADER,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    TIMESTAMP_TYPE_MASK,
    TRANSACTIONAL_MASK,
    CorruptBatch,
    read_header,
    seal,
)
from catchment.protocol.compression import Compression, compress, decompress
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.varints import read_varint, read_varlong, varint

Headers = tuple[tuple[str, bytes | None], ...]

_NULL: Final = varint(-1)
_SMALLEST_RECORD_BYTES: Final = 7
_SMALLEST_HEADER_BYTES: Final = 2


class Record(NamedTuple):
    """One record; offset and time count from those of its batch. Header names keep bytes that are not UTF-8."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    offset_delta: int = 0
    timestamp_delta_ms: int = 0


def numbered(pairs: Iterable[tuple[bytes | None, bytes | None]]) -> list[Record]:
    """Records of (key, value) pairs with offsets in a row, all of the batch's own time."""
    return [Record(key, value, offset_delta=delta) for delta, (key, value) in enumerate(pairs)]


def encode_record(record: Record) -> bytes:
    """One record with its length before it."""
    pieces = [b"\x00", varint(record.timestamp_delta_ms), varint(record.offset_delta)]
    _append_bytes(pieces, record.key)
    _append_bytes(pieces, record.value)
    pieces.append(varint(len(record.headers)))
    for name, value in record.headers:
        _append_bytes(pieces, name.encode("utf-8", "surrogateescape"))
        _append_bytes(pieces, value)
    body = b"".join(pieces)
    return varint(len(body)) + body


def _append_bytes(pieces: list[bytes], value: bytes | None) -> None:
    if value is None:
        pieces.append(_NULL)
    else:
        pieces += (varint(len(value)), value)


def iterate_records(data: bytes, count: int) -> Iterator[Record]:
    """The records in the uncompressed payload of a batch, or CorruptBatch where they end too early or too late."""
    if count < 0 or count * _SMALLEST_RECORD_BYTES > len(data):
        raise CorruptBatch(f"{count} records in {len(data)} bytes")
    offset = 0
    for _ in range(count):
        try:
            length, start = read_varint(data, offset)
            offset = start + length
            if length < 0 or offset > len(data):
                raise CorruptBatch(f"a record claims {length} bytes")
            record, end = _read_record(data, start)
        except MalformedRequest as cause:
            raise CorruptBatch(str(cause)) from cause
        if end != offset:
            raise CorruptBatch(f"a record of {length} bytes holds {end - start}")
        yield record
    if offset != len(data):
        raise CorruptBatch(f"{len(data) - offset} bytes behind the last record")


def _read_record(data: bytes, offset: int) -> tuple[Record, int]:
    # The first byte is for attributes; Kafka has defined none.
    timestamp_delta_ms, offset = read_varlong(data, offset + 1)
    offset_delta, offset = read_varint(data, offset)
    key, offset = _read_bytes(data, offset)
    value, offset = _read_bytes(data, offset)
    header_count, offset = read_varint(data, offset)
    if header_count == 0:
        return Record(key, value, (), offset_delta, timestamp_delta_ms), offset
    if header_count < 0 or header_count * _SMALLEST_HEADER_BYTES > len(data) - offset:
        raise CorruptBatch(f"a record claims {header_count} headers")
    headers = []
    for _ in range(header_count):
        name, offset = _read_bytes(data, offset)
        header_value, offset = _read_bytes(data, offset)
        if name is None:
            raise CorruptBatch("a header has no name")
        headers.append((name.decode("utf-8", "surrogateescape"), header_value))
    return Record(key, value, tuple(headers), offset_delta, timestamp_delta_ms), offset


def _read_bytes(data: bytes, offset: int) -> tuple[bytes | None, int]:
    length, offset = read_varint(data, offset)
    if length < 0:
        if length != -1:
            raise CorruptBatch(f"a field claims {length} bytes")
        return None, offset
    end = offset + length
    if end > len(data):
        raise CorruptBatch(f"a field claims {length} bytes")
    return data[offset:end], end


def read_records(batch: memoryview | bytes, limit_bytes: int) -> Iterator[Record]:
    """The records of one whole batch whose CRC has been checked, unpacked to at most `limit_bytes`."""
    header = read_header(batch)
    payload = decompress(header.compression, memoryview(batch)[HEADER_SIZE : header.size], limit_bytes)
    return iterate_records(payload, header.record_count)


def read_times(batch: memoryview | bytes, limit_bytes: int) -> Iterator[tuple[int, int]]:
    """Of each record of such a batch the deltas of its timestamp and its offset; the rest of it is passed over."""
    header = read_header(batch)
    payload = decompress(header.compression, memoryview(batch)[HEADER_SIZE : header.size], limit_bytes)
    return iterate_times(payload, header.record_count)


def iterate_times(data: bytes, count: int) -> Iterator[tuple[int, int]]:
    """The same of an uncompressed payload."""
    start = 0
    for _ in range(count):
        try:
            length, start = read_varint(data, start)
            # The first byte is for attributes.
            timestamp_delta_ms, offset = read_varlong(data, start + 1)
            offset_delta, offset = read_varint(data, offset)
        except MalformedRequest as cause:
            raise CorruptBatch(str(cause)) from cause
        start += length
        if offset > start or start > len(data):
            raise CorruptBatch(f"a record claims {length} bytes")
        yield timestamp_delta_ms, offset_delta


def encode_batch(
    records: Sequence[Record],
    *,
    base_offset: int = 0,
    base_timestamp_ms: int = 0,
    max_timestamp_ms: int | None = None,
    last_offset_delta: int | None = None,
    leader_epoch: int = 0,
    compression: int = Compression.NONE,
    compression_level: int | None = None,
    producer_id: int = NO_PRODUCER_ID,
    producer_epoch: int = NO_PRODUCER_EPOCH,
    base_sequence: int = NO_SEQUENCE,
    is_log_append_time: bool = False,
    is_transactional: bool = False,
    is_control: bool = False,
    has_delete_horizon: bool = False,
) -> bytes:
    """A whole version-2 batch, sealed with its CRC.

    Unless told otherwise it ends at the offset of its last record and has the latest time of them; compaction keeps
    the old end and time though the records that had them are gone. With a delete horizon, that is the base timestamp.
    """
    if max_timestamp_ms is None:
        max_timestamp_ms = base_timestamp_ms + max((record.timestamp_delta_ms for record in records), default=0)
    if last_offset_delta is None:
        last_offset_delta = records[-1].offset_delta if records else 0
    attributes = (
        compression
        | TIMESTAMP_TYPE_MASK * is_log_append_time
        | TRANSACTIONAL_MASK * is_transactional
        | CONTROL_MASK * is_control
        | DELETE_HORIZON_MASK * has_delete_horizon
    )
    payload = b"".join([encode_record(record) for record in records])
    if records:
        payload = compress(compression, payload, compression_level)
    batch = bytearray(HEADER_SIZE) + payload
    crc = 0
    HEADER.pack_into(
        batch,
        0,
        base_offset,
        len(batch) - LOG_OVERHEAD,
        leader_epoch,
        MAGIC,
        crc,
        attributes,
        last_offset_delta,
        base_timestamp_ms,
        max_timestamp_ms,
        producer_id,
        producer_epoch,
        base_sequence,
        len(records),
    )
    seal(batch)
    return bytes(batch)
