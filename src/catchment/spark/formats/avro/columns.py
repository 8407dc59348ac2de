"""Avro payloads to an Arrow column: buffers for the compiled loops, and the arrays that are built from them.

Buffers are allocated for the largest possible number of entries; pages that are not written cost nothing. A column gets one entry
per record, and inside arrays and maps at most one per byte. Very large batches are decoded in parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pyspark.sql import types as spark

from catchment.client.columns.arrays import Bytes, Longs
from catchment.spark.formats.avro import kernels
from catchment.spark.formats.avro.schema import Node
from catchment.spark.formats.decoder import Decoded, arrow_type
from catchment.spark.formats.payloads import Flags, Payloads, bitmap

_WIDE = (kernels.DECIMAL, kernels.FIXED_DECIMAL)
MOST_ROOM_BYTES: Final = 2**28
_FRAMED = (kernels.ARRAY, kernels.MAP, kernels.UNION)


@dataclass(frozen=True)
class _Written:
    """What the loops wrote: for each node how many entries, beginning at its base."""

    table: NDArray[Any]
    lengths: Longs
    text_lengths: Longs
    numbers: Longs
    valid: Flags
    texts: Bytes


class _Room(NamedTuple):
    table: NDArray[Any]
    entries: int
    text_bytes: int

    @property
    def bytes_reserved(self) -> int:
        """A number and a flag for each entry, and the texts."""
        return self.entries * 9 + self.text_bytes


def decode(root: Node, payloads: Payloads) -> Decoded:
    """A column of the root's type."""
    payload_bytes = int((payloads.ends - payloads.starts)[payloads.present].sum())
    room = _table(root, len(payloads), payload_bytes)
    if room.bytes_reserved > MOST_ROOM_BYTES and len(payloads) > 1:
        return _in_halves(root, payloads)
    written, errors = _write(root, payloads, room)
    column, _ = _array(root, 0, written)
    reasons = {int(row): kernels.REASONS[int(errors[row])] for row in np.flatnonzero(errors)}
    return Decoded(column, reasons)


def _in_halves(root: Node, payloads: Payloads) -> Decoded:
    half = len(payloads) // 2
    rows = np.arange(len(payloads))
    first, second = decode(root, payloads.only(rows[:half])), decode(root, payloads.only(rows[half:]))
    errors = first.errors | {row + half: reason for row, reason in second.errors.items()}
    return Decoded(pa.concat_arrays([first.column, second.column]), errors)


def _write(root: Node, payloads: Payloads, room: _Room) -> tuple[_Written, Bytes]:
    rows = len(payloads)
    table = room.table
    depth = _depth(root)
    totals = [np.zeros(len(table), np.int64) for _ in range(4)]
    written = _Written(
        table,
        totals[0],
        totals[1],
        np.empty(room.entries, np.int64),
        np.empty(room.entries, np.bool_),
        np.empty(room.text_bytes, np.uint8),
    )
    errors = np.zeros(rows, np.uint8)
    # Numba compiles a second version, which takes seconds, for writable arrays.
    data = payloads.data.view()
    data.flags.writeable = False
    kernels.decode_records(
        table,
        data,
        (_writable(payloads.starts), _writable(payloads.ends), _writable(payloads.present)),
        np.zeros((depth, 4), np.int64),
        (totals[0], totals[1], totals[2], totals[3]),
        (written.numbers, written.valid.view(np.uint8), written.texts),
        errors,
    )
    return written, errors


def _writable(array: NDArray[Any]) -> NDArray[Any]:
    return np.require(array, requirements=["C", "W"])


def _table(root: Node, rows: int, payload_bytes: int) -> _Room:
    """The nodes as the loops read them, and how much room their numbers and their texts need."""
    entries: list[tuple[int, ...]] = []
    room = text_room = 0

    def add(node: Node, capacity: int) -> None:
        nonlocal room, text_room
        position = len(entries)
        base, text_base = room, text_room
        room += capacity * (2 if node.kind in _WIDE else 1)
        text_room += payload_bytes if node.kind in (kernels.TEXT, kernels.FIXED) else 0
        entries.append(())
        for child in node.children:
            add(child, payload_bytes if node.kind in (kernels.ARRAY, kernels.MAP) else capacity)
        entries[position] = (
            node.kind, len(entries), node.branches, node.null_branch, node.parameter, base, text_base
        )  # fmt: skip

    add(root, rows)
    return _Room(np.array(entries, kernels.NODE), room, text_room)


def _depth(node: Node) -> int:
    return (node.kind in _FRAMED) + max((_depth(child) for child in node.children), default=0)


def _array(node: Node, index: int, written: _Written) -> tuple[Any, int]:
    """The array of a node, and the index of the node after it."""
    children: list[Any] = []
    following = index + 1
    for child in node.children:
        array, following = _array(child, following, written)
        children.append(array)
    base, length = int(written.table[index]["base"]), int(written.lengths[index])
    target = arrow_type(node.data_type)
    if node.kind == kernels.NULL:
        return pa.nulls(length), following
    valid = bitmap(written.valid[base : base + length])
    if node.kind == kernels.UNION and not isinstance(node.data_type, spark.StructType):
        return pc.coalesce(*(child.cast(target) for child in children)), following
    if node.kind in (kernels.RECORD, kernels.UNION):
        return pa.Array.from_buffers(target, length, [valid], children=children), following
    width = 2 if node.kind in _WIDE else 1
    numbers = written.numbers[base : base + length * width]
    if node.kind in (kernels.ARRAY, kernels.MAP):
        return _container(target, valid, numbers, children), following
    if node.kind == kernels.ENUM:
        indices = pa.Array.from_buffers(pa.int32(), length, [valid, pa.py_buffer(numbers.astype(np.int32))])
        return pa.DictionaryArray.from_arrays(indices, pa.array(node.symbols, pa.string())).cast(target), following
    return pa.Array.from_buffers(target, length, [valid, *_leaf_buffers(node, index, written, numbers)]), following


def _leaf_buffers(node: Node, index: int, written: _Written, numbers: Longs) -> Sequence[Any]:
    if node.kind in (kernels.TEXT, kernels.FIXED):
        text_base, used = int(written.table[index]["text_base"]), int(written.text_lengths[index])
        return pa.py_buffer(_offsets(numbers)), pa.py_buffer(written.texts[text_base : text_base + used])
    if node.kind == kernels.BOOLEAN:
        return (pa.py_buffer(np.packbits(numbers.astype(np.bool_), bitorder="little")),)
    narrow = {kernels.INT: np.int32, kernels.FLOAT: np.uint32}.get(node.kind)
    return (pa.py_buffer(numbers if narrow is None else numbers.astype(narrow)),)


def _container(target: Any, valid: Any, ends: Longs, children: list[Any]) -> Any:
    items = children[0]
    if pa.types.is_map(target):
        fields = [target.key_field, target.item_field]
        items = pa.StructArray.from_arrays(children, fields=fields)
    return pa.Array.from_buffers(target, len(ends), [valid, pa.py_buffer(_offsets(ends))], children=[items])


def _offsets(ends: Longs) -> NDArray[np.int32]:
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends
    return offsets
