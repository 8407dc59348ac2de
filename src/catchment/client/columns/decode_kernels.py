"""Compiled loops from records to columns.

They process whole payloads, so that Python's cost is per fetch, not per record. Numba checks no index: each function compares
every position and length with the end of its record before it reads, and returns an error code if the bytes are malformed.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from catchment.client.columns.arrays import Bytes, Ints, Longs
from catchment.client.columns.memory import address_of, append_field, compiled, load_byte

BinaryColumn = tuple[Bytes, Ints, Bytes]
"""Arrow's buffers of a binary column: its bytes, the offsets of its rows, and the validity bitmap."""

OFFSET: Final = 1
TIMESTAMP: Final = 2
TIMESTAMP_TYPE: Final = 4
KEY: Final = 8
VALUE: Final = 16
HEADERS: Final = 32

SOUND: Final = 0
BAD_VARINT: Final = 1
BAD_LENGTH: Final = 2
BYTES_LEFT: Final = 3
BAD_TIMESTAMP: Final = 4
NAMELESS_HEADER: Final = 5

ERRORS: Final = {
    BAD_VARINT: "has a varint that does not end",
    BAD_LENGTH: "has a length that exceeds its record",
    BYTES_LEFT: "has bytes after its last record or header",
    BAD_TIMESTAMP: "has a time that Arrow cannot hold in microseconds: leave out the column timestamp",
    NAMELESS_HEADER: "has a header without a key",
}
"""What is wrong with a batch, as the end of a sentence."""

PAYLOAD: Final = np.dtype(
    [
        ("start", np.int64),
        ("end", np.int64),
        ("count", np.int64),
        ("base_offset", np.int64),
        ("base_timestamp_ms", np.int64),
        ("log_append_time_ms", np.int64),
        ("is_log_append_time", np.int64),
    ]
)
"""The position of the uncompressed records of one batch in the buffer, and the fields of its header that apply to all of them."""

_LATEST_TIMESTAMP_MS: Final = (2**63 - 1) // 1000


@compiled
def read_varint(position: int, end: int, bits: int) -> tuple[int, int]:
    """A zigzag varint of at most `bits` bits and the address after it, which is -1 if the varint does not end in time."""
    if position >= end:
        return 0, -1
    byte = np.uint64(load_byte(position))
    position += 1
    value = byte & np.uint64(0x7F)
    shift = 7
    while byte >= np.uint64(0x80):
        if position >= end or shift >= bits:
            return 0, -1
        byte = np.uint64(load_byte(position))
        position += 1
        if shift + 7 > bits and (byte & np.uint64(0x7F)) >> np.uint64(bits - shift):
            return 0, -1
        value |= (byte & np.uint64(0x7F)) << np.uint64(shift)
        shift += 7
    signed: Any = np.int64(value >> np.uint64(1)) ^ -np.int64(value & np.uint64(1))
    return signed, position


@compiled
def read_length(position: int, end: int) -> tuple[int, int]:
    """The length before a field, -1 for null, and the address after it: -1 if the field would not fit."""
    length, position = read_varint(position, end, 32)
    if position >= 0 and (length < -1 or length > end - position):
        return 0, -1
    return length, position


@compiled
def read_prefix(position: int, payload_end: int) -> tuple[int, int, int, int]:
    """A record's end, timestamp delta, offset delta and the address of its key, or instead an error below zero."""
    length, position = read_length(position, payload_end)
    if position < 0 or length < 1:
        return 0, 0, 0, -BAD_LENGTH
    end = position + length
    timestamp_delta_ms, position = read_varint(position + 1, end, 64)
    if position < 0:
        return 0, 0, 0, -BAD_VARINT
    offset_delta, position = read_varint(position, end, 32)
    if position < 0:
        return 0, 0, 0, -BAD_VARINT
    return end, timestamp_delta_ms, offset_delta, position


@compiled
def decode_payload(
    data: int,
    payload: Any,
    offset_range: tuple[int, int],
    wanted: int,
    numbers: tuple[Longs, Longs, Ints],
    keys: BinaryColumn,
    values: BinaryColumn,
    headers: tuple[Longs, Longs],
    totals: Longs,
) -> int:
    """Append the records of one payload to the columns and to `totals`, as described at `decode_records`."""
    (offsets, timestamps_us, timestamp_types), (header_starts, header_ends) = numbers, headers
    (_, key_offsets, key_valid), (_, value_offsets, value_valid) = keys, values
    key_target, value_target = address_of(keys[0]), address_of(values[0])
    row, key_bytes, value_bytes = totals[0], totals[1], totals[2]
    position, payload_end = data + payload.start, data + payload.end
    for _ in range(payload.count):
        end, timestamp_delta_ms, offset_delta, position = read_prefix(position, payload_end)
        if position < 0:
            return -position
        offset = payload.base_offset + offset_delta
        if offset < offset_range[0] or offset >= offset_range[1]:
            position = end
            continue
        if wanted & OFFSET:
            offsets[row] = offset
        if wanted & TIMESTAMP:
            timestamp_ms = payload.base_timestamp_ms + timestamp_delta_ms
            if payload.is_log_append_time:
                timestamp_ms = payload.log_append_time_ms
            if timestamp_ms > _LATEST_TIMESTAMP_MS or timestamp_ms < -_LATEST_TIMESTAMP_MS:
                return BAD_TIMESTAMP
            timestamps_us[row] = timestamp_ms * 1000
        if wanted & TIMESTAMP_TYPE:
            timestamp_types[row] = payload.is_log_append_time
        if wanted & (KEY | VALUE | HEADERS):
            length, position = read_length(position, end)
            if position < 0:
                return BAD_LENGTH
            if wanted & KEY:
                key_bytes += append_field(key_target + key_bytes, position, length)
                key_offsets[row + 1] = key_bytes
                key_valid[row >> 3] &= ~((length < 0) << (row & 7))
            position += max(length, 0)
        if wanted & (VALUE | HEADERS):
            length, position = read_length(position, end)
            if position < 0:
                return BAD_LENGTH
            if wanted & VALUE:
                value_bytes += append_field(value_target + value_bytes, position, length)
                value_offsets[row + 1] = value_bytes
                value_valid[row >> 3] &= ~((length < 0) << (row & 7))
            position += max(length, 0)
        if wanted & HEADERS:
            header_starts[row], header_ends[row] = position - data, end - data
        position = end
        row += 1
    totals[0], totals[1], totals[2] = row, key_bytes, value_bytes
    return SOUND if position == payload_end else BYTES_LEFT


@compiled
def decode_records(
    data: Bytes,
    payloads: NDArray[Any],
    offset_range: tuple[int, int],
    wanted: int,
    numbers: tuple[Longs, Longs, Ints],
    keys: BinaryColumn,
    values: BinaryColumn,
    headers: tuple[Longs, Longs],
    totals: Longs,
) -> int:
    """Fill columns with the records whose offsets are in range, and `totals` with rows, key bytes and value bytes.

    Of a record out of range, and of columns that are not wanted, only what precedes them is read. The columns have room for
    as many rows, and as many bytes, as the payloads have. The fourth total is the index of the malformed payload.
    """
    for index in range(len(payloads)):
        totals[3] = index
        error = decode_payload(
            address_of(data), payloads[index], offset_range, wanted, numbers, keys, values, headers, totals
        )
        if error:
            return error
    return SOUND


@compiled
def count_headers(data: Bytes, starts: Longs, ends: Longs, list_offsets: Ints, list_valid: Bytes, totals: Longs) -> int:
    """Read how many headers each record has, and move its start behind that count. A record without headers gets a null."""
    address = address_of(data)
    for row in range(len(list_offsets) - 1):
        totals[3] = row
        count, position = read_varint(address + starts[row], address + ends[row], 32)
        if position < 0:
            return BAD_VARINT
        if count < 0 or 2 * count > address + ends[row] - position:
            return BAD_LENGTH
        list_valid[row >> 3] &= ~((count == 0) << (row & 7))
        starts[row] = position - address
        list_offsets[row + 1] = list_offsets[row] + count
    return SOUND


@compiled
def decode_headers(
    data: Bytes,
    starts: Longs,
    ends: Longs,
    list_offsets: Ints,
    names: BinaryColumn,
    values: BinaryColumn,
    totals: Longs,
) -> int:
    """Decode the headers after `count_headers`; `totals` gets name bytes, value bytes and whether a name is not ASCII."""
    address, name_target, value_target = address_of(data), address_of(names[0]), address_of(values[0])
    (_, name_offsets, _), (_, value_offsets, value_valid) = names, values
    name_bytes = value_bytes = every_bit = 0
    for row in range(len(list_offsets) - 1):
        totals[3] = row
        position, end = address + starts[row], address + ends[row]
        for header in range(list_offsets[row], list_offsets[row + 1]):
            length, position = read_length(position, end)
            if position < 0 or length < 0:
                return BAD_LENGTH if position < 0 else NAMELESS_HEADER
            for index in range(length):
                every_bit |= load_byte(position + index)
            name_bytes += append_field(name_target + name_bytes, position, length)
            name_offsets[header + 1] = name_bytes
            length, position = read_length(position + length, end)
            if position < 0:
                return BAD_LENGTH
            value_bytes += append_field(value_target + value_bytes, position, length)
            value_offsets[header + 1] = value_bytes
            value_valid[header >> 3] &= ~((length < 0) << (header & 7))
            position += max(length, 0)
        if position != end:
            return BYTES_LEFT
    totals[0], totals[1], totals[2] = name_bytes, value_bytes, every_bit >> 7
    return SOUND
