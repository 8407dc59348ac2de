"""Compiled loops from columns to records, and the hash that selects partitions.

Each record's size is computed before it is written, and compared with the remaining space.
"""

from __future__ import annotations

from typing import Final

import numpy as np

from catchment.client.columns.arrays import Bytes, Longs
from catchment.client.columns.memory import address_of, append_field, compiled, copy_bytes, load_byte, store_byte

Rows = tuple[Bytes, Longs, Bytes]
"""A column to be encoded: its bytes, the offsets of its rows, and a 1 for each null row."""

LARGEST_VARINT_BYTES: Final = 5
"""Of a length or a count."""


@compiled
def varint_size(value: int) -> int:
    """The size of a zigzag varint."""
    rest = np.uint64((value << 1) ^ (value >> 63)) >> np.uint64(7)
    size = 1
    while rest:
        rest >>= np.uint64(7)
        size += 1
    return size


@compiled
def write_varint(position: int, value: int) -> int:
    """Write a zigzag varint and return the address after it."""
    rest = np.uint64((value << 1) ^ (value >> 63))
    while rest >= np.uint64(0x80):
        store_byte(position, np.int64(rest & np.uint64(0x7F) | np.uint64(0x80)))
        position += 1
        rest >>= np.uint64(7)
    store_byte(position, np.int64(rest))
    return position + 1


@compiled
def write_field(position: int, source: int, length: int) -> int:
    """Write a field after its length, -1 for null, and return the address after it."""
    position = write_varint(position, length)
    return position + append_field(position, source, length)


@compiled
def encode_records(
    first_row: int,
    timestamps_ms: Longs,
    keys: Rows,
    values: Rows,
    headers: tuple[Bytes, Longs],
    target: Bytes,
    totals: Longs,
) -> int:
    """Write records from `first_row` on until the next would not fit, and return their number. `totals`: bytes, latest timestamp.

    `headers` are encoded already, or have no offsets if no row has any.
    """
    (_, key_offsets, key_nulls), (_, value_offsets, value_nulls), (_, header_offsets) = keys, values, headers
    key_source, value_source, header_source = address_of(keys[0]), address_of(values[0]), address_of(headers[0])
    position = address_of(target)
    end = position + len(target)
    latest_ms = timestamps_ms[first_row]
    count = 0
    for row in range(first_row, len(timestamps_ms)):
        timestamp_delta_ms = timestamps_ms[row] - timestamps_ms[first_row]
        key_length = -1 if key_nulls[row] else key_offsets[row + 1] - key_offsets[row]
        value_length = -1 if value_nulls[row] else value_offsets[row + 1] - value_offsets[row]
        header_bytes = header_offsets[row + 1] - header_offsets[row] if len(header_offsets) else 1
        size = 1 + varint_size(timestamp_delta_ms) + varint_size(count) + header_bytes
        size += varint_size(key_length) + max(key_length, 0) + varint_size(value_length) + max(value_length, 0)
        if varint_size(size) + size > end - position:
            break
        position = write_varint(position, size)
        store_byte(position, 0)
        position = write_varint(position + 1, timestamp_delta_ms)
        position = write_varint(position, count)
        position = write_field(position, key_source + key_offsets[row], key_length)
        position = write_field(position, value_source + value_offsets[row], value_length)
        if len(header_offsets):
            copy_bytes(position, header_source + header_offsets[row], header_bytes)
        else:
            store_byte(position, 0)
        position += header_bytes
        latest_ms = max(latest_ms, timestamps_ms[row])
        count += 1
    totals[0], totals[1] = position - address_of(target), latest_ms
    return count


@compiled
def encode_headers(lists: tuple[Longs, Bytes], names: Rows, values: Rows, target: Bytes, target_offsets: Longs) -> int:
    """Write the count and the headers of each row to `target`, which is large enough. Returns a row with a nameless header, or -1."""
    (list_offsets, list_nulls), (_, name_offsets, name_nulls), (_, value_offsets, value_nulls) = lists, names, values
    name_source, value_source = address_of(names[0]), address_of(values[0])
    position = address_of(target)
    for row in range(len(list_nulls)):
        end = list_offsets[row] if list_nulls[row] else list_offsets[row + 1]
        position = write_varint(position, end - list_offsets[row])
        for header in range(list_offsets[row], end):
            if name_nulls[header]:
                return row
            position = write_field(
                position, name_source + name_offsets[header], name_offsets[header + 1] - name_offsets[header]
            )
            value_length = -1 if value_nulls[header] else value_offsets[header + 1] - value_offsets[header]
            position = write_field(position, value_source + value_offsets[header], value_length)
        target_offsets[row + 1] = position - address_of(target)
    return -1


@compiled
def murmur2(source: int, length: int) -> int:
    """The 32-bit murmur2 hash of Kafka's clients, in 64-bit arithmetic: Numba has no narrower."""
    factor = 0x5BD1E995
    value = (0x9747B28C ^ length) & 0xFFFFFFFF
    end = source + (length & ~3)
    for word in range(source, end, 4):
        mixed = load_byte(word) | load_byte(word + 1) << 8 | load_byte(word + 2) << 16 | load_byte(word + 3) << 24
        mixed = mixed * factor & 0xFFFFFFFF
        mixed = (mixed ^ mixed >> 24) * factor & 0xFFFFFFFF
        value = (value * factor & 0xFFFFFFFF) ^ mixed
    if length & 3:
        for index in range(length & 3):
            value ^= load_byte(end + index) << 8 * index
        value = value * factor & 0xFFFFFFFF
    value = (value ^ value >> 13) * factor & 0xFFFFFFFF
    return value ^ value >> 15


@compiled
def choose_partitions(keys: Rows, count: int, partitions: Longs) -> None:
    """The partition of each key as in Java: its murmur2 hash without the sign, modulo the count. Rows with a null key are skipped."""
    _, offsets, nulls = keys
    source = address_of(keys[0])
    for row in range(len(nulls)):
        if not nulls[row]:
            partitions[row] = (murmur2(source + offsets[row], offsets[row + 1] - offsets[row]) & 0x7FFFFFFF) % count
