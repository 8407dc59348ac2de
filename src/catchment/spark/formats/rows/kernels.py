"""Compiled loops from Arrow columns to records in Avro.

A row type is a table of nodes in the order in which their values are written, each with the addresses of its column, so that one
compiled function serves every type. Arrays and maps are frames on a stack: a part of the table that is walked once for each item.
Nothing here checks the room: its caller has reserved as much as the rows can take at most.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from catchment.client.columns.arrays import Bytes, Longs
from catchment.client.columns.encode_kernels import write_varint
from catchment.client.columns.memory import address_of, append_field, compiled, copy_bytes, load_byte, store_byte

VOID: Final = 0
BOOLEAN: Final = 1
INTEGER: Final = 2
FLOATING: Final = 3
TEXT: Final = 4
DECIMAL: Final = 5
RECORD: Final = 6
REPEATED: Final = 7
EMPTY: Final = 8

NODE: Final = np.dtype(
    [
        ("kind", np.int64),
        ("end", np.int64),
        ("nullable", np.int64),
        ("width", np.int64),
        ("first", np.int64),
        ("valid", np.int64),
        ("data", np.int64),
        ("offsets", np.int64),
    ]
)
"""A node: the index after its children, whether it is in a union with null, how many bytes a value has, and of its column the
first entry and the addresses of the bitmap, which is 0 if there are no nulls, of the values and of the offsets."""


@compiled
def load_integer(address: int, width: int) -> Any:
    """A signed number of 1, 2, 4 or 8 bytes, the lowest first."""
    value = np.int64(0)
    for index in range(width):
        value |= np.int64(load_byte(address + index)) << np.int64(8 * index)
    unused = np.int64(64 - 8 * width)
    return (value << unused) >> unused


@compiled
def load_bit(address: int, index: int) -> int:
    """One of Arrow's bits."""
    return (load_byte(address + (index >> 3)) >> (index & 7)) & 1


@compiled
def write_decimal(position: int, source: int) -> int:
    """Arrow's sixteen bytes as the shortest big-endian number, with its length before it."""
    sign = 0xFF if load_byte(source + 15) >= 0x80 else 0
    size = 16
    while size > 1 and load_byte(source + size - 1) == sign and (load_byte(source + size - 2) ^ sign) < 0x80:
        size -= 1
    position = write_varint(position, size)
    for index in range(size):
        store_byte(position + index, load_byte(source + size - 1 - index))
    return position + size


@compiled
def write_value(node: Any, position: int, entry: int) -> int:
    """A value that has no others inside; returns the address after it."""
    kind = node.kind
    if kind == INTEGER:
        if node.width == 8:
            return write_varint(position, load_integer(node.data + entry * 8, 8))
        if node.width == 4:
            return write_varint(position, load_integer(node.data + entry * 4, 4))
        return write_varint(position, load_integer(node.data + entry * node.width, node.width))
    if kind == TEXT:
        start = load_integer(node.offsets + entry * 4, 4)
        length = load_integer(node.offsets + entry * 4 + 4, 4) - start
        position = write_varint(position, length)
        return position + append_field(position, node.data + start, length)
    if kind == FLOATING:
        width: int = node.width
        copy_bytes(position, node.data + entry * width, width)
        return position + width
    if kind == DECIMAL:
        return write_decimal(position, node.data + entry * 16)
    store_byte(position, 1 if kind == EMPTY else load_bit(node.data, entry))
    return position + 1


@compiled
def write_row(nodes: NDArray[Any], row: int, position: int, frames: NDArray[np.int64]) -> int:
    """One row; returns the address after it. A frame is the node that it belongs to, the entry of its item, and the last one's end."""
    index, depth, entry = 1, 0, row
    while True:
        while depth and index == nodes[frames[depth - 1, 0]].end:
            frames[depth - 1, 1] += 1
            entry = frames[depth - 1, 1]
            if entry < frames[depth - 1, 2]:
                index = frames[depth - 1, 0] + 1
                break
            store_byte(position, 0)
            position += 1
            depth -= 1
            entry = frames[depth - 1, 1] if depth else row
        if index == len(nodes):
            return position
        node = nodes[index]
        here = entry + node.first
        if node.nullable:
            is_null = node.kind == VOID or (node.valid != 0 and load_bit(node.valid, here) == 0)
            store_byte(position, 0 if is_null else 2)
            position += 1
            if is_null:
                index = node.end
                continue
        if node.kind == REPEATED:
            start = load_integer(node.offsets + here * 4, 4)
            end = load_integer(node.offsets + here * 4 + 4, 4)
            if end > start:
                position = write_varint(position, end - start)
                frames[depth, 0], frames[depth, 1], frames[depth, 2] = index, start, end
                depth += 1
                entry = start
                index += 1
            else:
                store_byte(position, 0)
                position += 1
                index = node.end
            continue
        if node.kind != RECORD:
            position = write_value(node, position, here)
        index += 1


@compiled
def write_rows(
    nodes: NDArray[Any], rows: int, frame: Bytes, frames: NDArray[np.int64], target: Bytes, offsets: Longs
) -> int:
    """Every row after the frame that all have, none for a row that is null; returns how many bytes they take."""
    root = nodes[0]
    begin = address_of(target)
    position = begin
    offsets[0] = 0
    for row in range(rows):
        if root.valid == 0 or load_bit(root.valid, row + root.first):
            position += append_field(position, address_of(frame), len(frame))
            position = write_row(nodes, row, position, frames)
        offsets[row + 1] = position - begin
    return position - begin
