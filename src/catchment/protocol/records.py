"""Single records inside a version-2 batch, and whole batches made of them.

Not for the hot path: compaction, internal topics, the log dump and tests use it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
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
from catchment.protocol.compression import Compression, compress, decompress, decompressed
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.wire import read_varint, read_varlong, varint

Headers = tuple[tuple[str, bytes | None], ...]

_NULL: Final = varint(-1)
_SMALLEST_RECORD_BYTES: Final = 7
_SMALLEST_HEADER_BYTES: Final = 2
_RECORDS_BETWEEN_PAUSES: Final = 256


class Record(NamedTuple):
    """One record. Offset and timestamp are relative to those of its batch. Header names keep bytes that are not UTF-8."""

    key: bytes | None
    value: bytes | None
    headers: Headers = ()
    offset_delta: int = 0
    timestamp_delta_ms: int = 0


def numbered(pairs: Iterable[tuple[bytes | None, bytes | None]]) -> list[Record]:
    """Records of (key, value) pairs with consecutive offsets, all with the batch's base timestamp."""
    return [Record(key, value, offset_delta=delta) for delta, (key, value) in enumerate(pairs)]


def encode_record(record: Record) -> bytes:
    """One record after its length."""
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
    """The records in the uncompressed payload of a batch. Raises CorruptBatch if they do not fill it exactly."""
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
        raise CorruptBatch(f"{len(data) - offset} bytes after the last record")


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


def find_without_key(data: memoryview | bytes, count: int, most: int, pause: Callable[[], None]) -> list[int]:
    """The indexes of the first `most` records of an uncompressed payload without a key. Raises CorruptBatch as `iterate_records` does.

    The payload is not copied. `pause` is called regularly: it may let other threads run, or raise.
    """
    if count < 0 or count * _SMALLEST_RECORD_BYTES > len(data):
        raise CorruptBatch(f"{count} records in {len(data)} bytes")
    found: list[int] = []
    position = 0
    try:
        for first in range(0, count, _RECORDS_BETWEEN_PAUSES):
            if first:
                pause()
            for index in range(first, min(first + _RECORDS_BETWEEN_PAUSES, count)):
                has_key, position = _skip_record(data, position)
                if not has_key and len(found) < most:
                    found.append(index)
    except MalformedRequest as cause:
        raise CorruptBatch(str(cause)) from cause
    except IndexError:
        raise CorruptBatch("the bytes end inside a record") from None
    if position != len(data):
        raise CorruptBatch(f"{len(data) - position} bytes after the last record")
    return found


def _skip_record(data: memoryview | bytes, position: int) -> tuple[bool, int]:
    """Whether the record has a key, and the offset after the record. Short varints, the most frequent ones, are decoded inline."""
    byte = data[position]
    length, start = (byte >> 1, position + 1) if not byte & 0x81 else read_varint(data, position)
    end = start + length
    if length < 0 or end > len(data):
        raise CorruptBatch(f"a record claims {length} bytes")
    # The first byte is for attributes, followed by the timestamp and the offset.
    position = start + 1
    if data[position] < 0x80:
        position += 1
    else:
        position = position + 2 if data[position + 1] < 0x80 else read_varlong(data, position)[1]
    if data[position] < 0x80:
        position += 1
    else:
        position = position + 2 if data[position + 1] < 0x80 else read_varint(data, position)[1]
    byte = data[position]
    key_length, position = (byte, position + 1 + (byte >> 1)) if not byte & 0x81 else _skip_bytes(data, position)
    byte = data[position]
    position = position + 1 + (byte >> 1) if not byte & 0x81 else _skip_bytes(data, position)[1]
    position = position + 1 if data[position] == 0 else _skip_headers(data, position)
    if position != end:
        raise CorruptBatch(f"a record of {length} bytes holds {position - start}")
    return key_length >= 0, end


def _skip_headers(data: memoryview | bytes, position: int) -> int:
    count, position = read_varint(data, position)
    if count < 0 or count * _SMALLEST_HEADER_BYTES > len(data) - position:
        raise CorruptBatch(f"a record claims {count} headers")
    for _ in range(count):
        name_length, position = _skip_bytes(data, position)
        if name_length < 0:
            raise CorruptBatch("a header has no name")
        _, position = _skip_bytes(data, position)
    return position


def _skip_bytes(data: memoryview | bytes, position: int) -> tuple[int, int]:
    """The length of a field, -1 for null, and the offset after it."""
    length, position = read_varint(data, position)
    if length < -1 or position + length > len(data):
        raise CorruptBatch(f"a field claims {length} bytes")
    return length, position + max(length, 0)


def read_times(batch: memoryview | bytes, limit_bytes: int) -> Iterator[tuple[int, int]]:
    """The deltas of timestamp and offset of each record of such a batch; the rest is skipped."""
    header = read_header(batch)
    payload = decompressed(header.compression, memoryview(batch)[HEADER_SIZE : header.size], limit_bytes)
    return iterate_times(payload, header.record_count)


def iterate_times(data: memoryview | bytes, count: int) -> Iterator[tuple[int, int]]:
    """The same for an uncompressed payload."""
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
    """A whole version-2 batch with its CRC.

    By default it ends at the offset of its last record and has the latest timestamp of them. Compaction keeps the old values even
    if the records that had them are gone. With a delete horizon, that is the base timestamp.
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
