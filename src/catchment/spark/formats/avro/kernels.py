"""Compiled loops from Avro's bytes to the numbers and texts of Arrow columns.

A schema is a table of nodes in the order in which their values are written, each with its column, so that one compiled
function serves every schema. Arrays, maps and unions are frames on a stack: a part of the table that is walked again, or not.
Numba checks no index, and takes it that no sum overflows: every position and length is compared with the end of its record
before it is used, and how many entries a column can get follows from the bytes that there are. A record that is wrong is
taken back and becomes a null.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from catchment.client.columns.arrays import Bytes, Longs
from catchment.client.columns.decode_kernels import read_varint
from catchment.client.columns.memory import address_of, append_field, compiled, copy_bytes, load_byte

NULL: Final = 0
BOOLEAN: Final = 1
INT: Final = 2
LONG: Final = 3
FLOAT: Final = 4
DOUBLE: Final = 5
TEXT: Final = 6
FIXED: Final = 7
ENUM: Final = 8
DECIMAL: Final = 9
FIXED_DECIMAL: Final = 10
RECORD: Final = 11
ARRAY: Final = 12
MAP: Final = 13
UNION: Final = 14

NODE: Final = np.dtype(
    [
        ("kind", np.int64),
        ("end", np.int64),
        ("branches", np.int64),
        ("null_branch", np.int64),
        ("parameter", np.int64),
        ("base", np.int64),
        ("text_base", np.int64),
    ]
)
"""A node: the index after its children; of how many branches its union has, which is null; a size, a number of symbols or a
factor; and where its column begins among all numbers, all flags and all texts."""

SOUND: Final = 0
BAD_NUMBER: Final = 1
BAD_LENGTH: Final = 2
BAD_BRANCH: Final = 3
BAD_SYMBOL: Final = 4
BAD_BOOLEAN: Final = 5
BAD_DECIMAL: Final = 6
BAD_TIME: Final = 7
BYTES_LEFT: Final = 8

REASONS: Final = {
    BAD_NUMBER: "a number does not end",
    BAD_LENGTH: "a value leads out of the record",
    BAD_BRANCH: "a union has no such branch",
    BAD_SYMBOL: "an enum has no such symbol",
    BAD_BOOLEAN: "a boolean is neither 0 nor 1",
    BAD_DECIMAL: "a decimal has more digits than its precision",
    BAD_TIME: "a time is beyond what microseconds can hold",
    BYTES_LEFT: "bytes are left after the last field",
}

_LARGEST: Final = 2**63 - 1


@compiled
def read_length(position: int, end: int) -> tuple[int, int]:
    """The length of a text and the address after it, which is below zero if the text would not fit."""
    length, position = read_varint(position, end, 64)
    if position < 0:
        return 0, -BAD_NUMBER
    if length < 0 or length > end - position:
        return 0, -BAD_LENGTH
    return length, position


@compiled
def read_decimal(position: int, length: int, target: int, numbers: Longs) -> int:
    """A big-endian number of any length as Arrow's sixteen bytes, low half first; it must fit into them."""
    low = high = np.int64(0)
    if length and load_byte(position) >= 0x80:
        low = high = np.int64(-1)
    sign = high
    for index in range(length):
        if index + 16 < length and load_byte(position + index) != sign & 0xFF:
            return -BAD_DECIMAL
        high = (high << 8) | ((low >> 56) & 0xFF)
        low = (low << 8) | load_byte(position + index)
    if length > 16 and (high < 0) != (sign < 0):
        return -BAD_DECIMAL
    numbers[target], numbers[target + 1] = low, high
    return position + length


@compiled
def read_number(node: Any, position: int, end: int, target: int, numbers: Longs) -> int:
    """A value of fixed width, or one that is kept as a number; returns the address after it or an error below zero."""
    kind = node.kind
    if kind in (INT, LONG, ENUM):
        value, position = read_varint(position, end, 64 if kind == LONG else 32)
        if position < 0:
            return -BAD_NUMBER
        if kind == ENUM and (value < 0 or value >= node.parameter):
            return -BAD_SYMBOL
        if kind == LONG and node.parameter > 1:
            if value > _LARGEST // node.parameter or value < -(_LARGEST // node.parameter):
                return -BAD_TIME
            value *= node.parameter
        numbers[target] = value
        return position
    if kind in (DOUBLE, FLOAT):
        size = 8 if kind == DOUBLE else 4
        if end - position < size:
            return -BAD_LENGTH
        numbers[target] = 0
        copy_bytes(address_of(numbers) + 8 * target, position, size)
        return position + size
    if kind == BOOLEAN:
        if position >= end or load_byte(position) > 1:
            return -BAD_LENGTH if position >= end else -BAD_BOOLEAN
        numbers[target] = load_byte(position)
        return position + 1
    length = node.parameter
    if kind == DECIMAL:
        length, position = read_length(position, end)
        if position < 0:
            return position
    if length > end - position:
        return -BAD_LENGTH
    return read_decimal(position, length, target, numbers)


@compiled
def read_text(
    node: Any, position: int, end: int, target: int, used: int, numbers: Longs, texts: Bytes
) -> tuple[int, int]:
    """Bytes, text or fixed bytes: appends them, notes where they end, and returns that with the address after them."""
    length = node.parameter
    if node.kind == TEXT:
        length, position = read_length(position, end)
        if position < 0:
            return used, position
    elif length > end - position:
        return used, -BAD_LENGTH
    append_field(address_of(texts) + node.text_base + used, position, length)
    numbers[target] = used + length
    return used + length, position + length


@compiled
def append_nulls(
    nodes: NDArray[Any], first: int, end: int, lengths: Longs, text_lengths: Longs, numbers: Longs, valid: Bytes
) -> None:
    """A null for each node of a part of the table. Inside arrays and maps nothing is added: a null one has no items."""
    index = first
    while index < end:
        node = nodes[index]
        entry = lengths[index]
        valid[node.base + entry] = 0
        lengths[index] = entry + 1
        if node.kind == ARRAY or node.kind == MAP:
            numbers[node.base + entry] = lengths[index + 1]
            index = node.end
            continue
        if node.kind == TEXT or node.kind == FIXED:
            numbers[node.base + entry] = text_lengths[index]
        elif node.kind == DECIMAL or node.kind == FIXED_DECIMAL:
            numbers[node.base + 2 * entry] = numbers[node.base + 2 * entry + 1] = 0
        elif node.kind != NULL and node.kind != RECORD and node.kind != UNION:
            numbers[node.base + entry] = 0
        index += 1


@compiled
def read_block(position: int, end: int) -> tuple[int, int]:
    """How many items the next block of an array or a map has, none at its end. An item takes a byte at least."""
    count, position = read_varint(position, end, 64)
    negative = position >= 0 and count < 0
    if negative:
        _, position = read_varint(position, end, 64)
    if position < 0:
        return 0, -BAD_NUMBER
    if count > end - position or count < position - end:
        return 0, -BAD_LENGTH
    return -count if negative else count, position


@compiled
def choose_branch(
    nodes: NDArray[Any], index: int, branch: int, lengths: Longs, text_lengths: Longs, numbers: Longs, valid: Bytes
) -> int:
    """The child of a union that is written; the others get a null."""
    node = nodes[index]
    number = branch - (0 <= node.null_branch < branch)
    chosen = child = index + 1
    for other in range(node.branches - (node.null_branch >= 0)):
        if other == number:
            chosen = child
        else:
            append_nulls(nodes, child, nodes[child].end, lengths, text_lengths, numbers, valid)
        child = nodes[child].end
    return chosen


@compiled
def close_frames(
    nodes: NDArray[Any],
    index: int,
    depth: int,
    position: int,
    end: int,
    frames: NDArray[np.int64],
    lengths: Longs,
    numbers: Longs,
) -> tuple[int, int, int]:
    """Continue after the item that ends here: to the next item, or after those frames of which it was the last."""
    while depth and index == frames[depth - 1, 2]:
        owner, frames[depth - 1, 3] = frames[depth - 1, 0], frames[depth - 1, 3] - 1
        if not frames[depth - 1, 3] and nodes[owner].kind != UNION:
            frames[depth - 1, 3], position = read_block(position, end)
            if position < 0:
                return index, depth, position
        if frames[depth - 1, 3]:
            return frames[depth - 1, 1], depth, position
        if nodes[owner].kind != UNION:
            numbers[nodes[owner].base + lengths[owner] - 1] = lengths[owner + 1]
        index = nodes[owner].end
        depth -= 1
    return index, depth, position


@compiled
def decode_record(
    nodes: NDArray[Any],
    position: int,
    end: int,
    frames: NDArray[np.int64],
    lengths: Longs,
    text_lengths: Longs,
    numbers: Longs,
    valid: Bytes,
    texts: Bytes,
) -> int:
    """Append one record to the columns. A frame is the node that it belongs to, its first child, its end and items left."""
    index = depth = 0
    while True:
        if depth and index == frames[depth - 1, 2]:
            index, depth, position = close_frames(nodes, index, depth, position, end, frames, lengths, numbers)
            if position < 0:
                return -position
        if index == len(nodes):
            return SOUND if position == end else BYTES_LEFT
        node = nodes[index]
        kind, entry, branch = node.kind, lengths[index], 0
        if node.branches:
            branch, position = read_varint(position, end, 64)
            if position < 0 or branch < 0 or branch >= node.branches:
                return BAD_BRANCH
            if branch == node.null_branch:
                append_nulls(nodes, index, node.end, lengths, text_lengths, numbers, valid)
                index = node.end
                continue
        valid[node.base + entry] = kind != NULL
        lengths[index] = entry + 1
        if kind in (TEXT, FIXED):
            text_lengths[index], position = read_text(
                node, position, end, node.base + entry, text_lengths[index], numbers, texts
            )
        elif kind in (ARRAY, MAP):
            count, position = read_block(position, end)
            if count:
                frames[depth] = (index, index + 1, node.end, count)
                depth += 1
            else:
                numbers[node.base + entry] = lengths[index + 1]
                index = node.end - 1
        elif kind == UNION:
            chosen = choose_branch(nodes, index, branch, lengths, text_lengths, numbers, valid)
            frames[depth] = (index, chosen, nodes[chosen].end, 1)
            depth += 1
            index = chosen - 1
        elif kind != RECORD and kind != NULL:
            wide = kind in (DECIMAL, FIXED_DECIMAL)
            position = read_number(node, position, end, node.base + entry * (2 if wide else 1), numbers)
        if position < 0:
            return -position
        index += 1


@compiled
def decode_records(
    nodes: NDArray[Any],
    data: Bytes,
    rows: tuple[Longs, Longs, NDArray[np.bool_]],
    frames: NDArray[np.int64],
    totals: tuple[Longs, Longs, Longs, Longs],
    columns: tuple[Longs, Bytes, Bytes],
    errors: Bytes,
) -> int:
    """Append every record, or a null in place of one that is absent or wrong; returns how many are wrong."""
    (starts, ends, present), (numbers, valid, texts) = rows, columns
    lengths, text_lengths, lengths_before, text_lengths_before = totals
    wrong = 0
    for row in range(len(starts)):
        error = SOUND
        if present[row]:
            lengths_before[:], text_lengths_before[:] = lengths, text_lengths
            error = decode_record(
                nodes,
                address_of(data) + starts[row],
                address_of(data) + ends[row],
                frames,
                lengths,
                text_lengths,
                numbers,
                valid,
                texts,
            )
            if error:
                lengths[:], text_lengths[:] = lengths_before, text_lengths_before
                errors[row] = error
                wrong += 1
        if error or not present[row]:
            append_nulls(nodes, 0, len(nodes), lengths, text_lengths, numbers, valid)
    return wrong
