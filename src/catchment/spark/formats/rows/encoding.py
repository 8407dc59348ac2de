"""Rows of Spark as records in Avro: a column of structs to one of bytes, without an object in Python for any row."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from catchment.spark.formats.decoder import arrow_type
from catchment.spark.formats.rows import kernels
from catchment.spark.formats.rows.schema import avro_schema_of, frame_of

_INTEGER_BYTES: Final[dict[type[spark.DataType], int]] = {
    spark.ByteType: 1,
    spark.ShortType: 2,
    spark.IntegerType: 4,
    spark.DateType: 4,
    spark.LongType: 8,
    spark.TimestampType: 8,
    spark.TimestampNTZType: 8,
    spark.DayTimeIntervalType: 8,
    spark.TimeType: 8,
}
_FLOATING_BYTES: Final[dict[type[spark.DataType], int]] = {spark.FloatType: 4, spark.DoubleType: 8}
_TEXTS: Final = (spark.StringType, spark.BinaryType)
_VARINT_BYTES: Final = {1: 2, 2: 3, 4: 5, 8: 10}
"""How many bytes a number of so many takes at most."""
_BRANCH_BYTES: Final = 1
_LENGTH_BYTES: Final = 5
_DECIMAL_BYTES: Final = 17
_LARGEST_COLUMN_BYTES: Final = 2**31 - 1
"""Of a column of type binary, whose offsets have 32 bits."""


@dataclass(frozen=True)
class RowEncoder:
    """Avro for one row type. With a frame, each record says which schema it was written with."""

    schema: spark.StructType
    framed: bool

    def encode(self, column: Any) -> Any:
        """A column of type binary, null where a row is, of a column of structs; OverflowError if it cannot hold them all."""
        table = _Table()
        table.add(column, self.schema, nullable=False)
        prefix = np.frombuffer(frame_of(avro_schema_of(self.schema)) if self.framed else b"", np.uint8)
        rows = len(column)
        # What is not written costs nothing.
        target = np.empty(table.most_bytes + rows * len(prefix), np.uint8)
        offsets = np.empty(rows + 1, np.int64)
        nodes = np.array([tuple(node) for node in table.nodes], kernels.NODE)
        frames = np.zeros((table.depth + 1, 3), np.int64)
        used = kernels.write_rows(nodes, rows, np.array(prefix), frames, target, offsets)
        if used > _LARGEST_COLUMN_BYTES:
            raise OverflowError(f"{rows} rows take {used} bytes in Avro, and a column holds {_LARGEST_COLUMN_BYTES}")
        valid = column.is_valid().buffers()[1] if column.null_count else None
        data = pa.py_buffer(target[:used])
        return pa.Array.from_buffers(pa.binary(), rows, [valid, pa.py_buffer(offsets.astype(np.int32)), data])


class _Table:
    """The nodes of a column as the loops read them. It keeps the arrays whose addresses it has."""

    def __init__(self) -> None:
        self.nodes: list[list[int]] = []
        self.most_bytes = 0
        """What the rows can take at most."""
        self.depth = 0
        """How many arrays and maps are inside one another."""
        self._columns: list[Any] = []

    def add(self, column: Any, kind: spark.DataType, *, nullable: bool = True, depth: int = 0) -> None:
        if isinstance(kind, _TEXTS):
            # Spark may send large types.
            column = column.cast(arrow_type(kind))
        self._columns.append(column)
        self.depth = max(self.depth, depth)
        node_kind, width = _node(kind)
        buffers = column.buffers() if node_kind != kernels.VOID else [None]
        node = [node_kind, 0, int(nullable), width, column.offset, _address(buffers[0]), 0, 0]
        self.nodes.append(node)
        entries = len(column)
        most = _VARINT_BYTES[width] if node_kind == kernels.INTEGER else width
        self.most_bytes += entries * (_BRANCH_BYTES + most)
        if node_kind == kernels.RECORD:
            assert isinstance(kind, spark.StructType), "only structs are records"
            for position, field in enumerate(kind.fields):
                self.add(column.field(position), field.dataType, depth=depth)
        elif node_kind == kernels.REPEATED:
            node[7] = _address(buffers[1])
            self.most_bytes += entries * (_LENGTH_BYTES + 1)
            self._add_items(column, kind, depth + 1)
        elif node_kind == kernels.TEXT:
            node[6], node[7] = _address(buffers[2]), _address(buffers[1])
            self.most_bytes += entries * _LENGTH_BYTES + _text_bytes(column, buffers)
        elif len(buffers) > 1:
            node[6] = _address(buffers[1])
        node[1] = len(self.nodes)

    def _add_items(self, column: Any, kind: spark.DataType, depth: int) -> None:
        if isinstance(kind, spark.MapType):
            self.add(column.keys, kind.keyType, nullable=False, depth=depth)
            self.add(column.items, kind.valueType, depth=depth)
        else:
            assert isinstance(kind, spark.ArrayType), "only arrays and maps have items"
            self.add(column.values, kind.elementType, depth=depth)


def _node(kind: spark.DataType) -> tuple[int, int]:
    """The kind of a node, and how many bytes a value of it takes: in Arrow for numbers, and at most in Avro for others."""
    if isinstance(kind, spark.StructType):
        return (kernels.RECORD, 0) if kind.fields else (kernels.EMPTY, 1)
    if isinstance(kind, spark.ArrayType | spark.MapType):
        return kernels.REPEATED, 0
    if isinstance(kind, spark.DecimalType):
        return kernels.DECIMAL, _DECIMAL_BYTES
    if isinstance(kind, _TEXTS):
        return kernels.TEXT, 0
    if isinstance(kind, spark.NullType):
        return kernels.VOID, 0
    if isinstance(kind, spark.BooleanType):
        return kernels.BOOLEAN, 1
    if type(kind) in _FLOATING_BYTES:
        return kernels.FLOATING, _FLOATING_BYTES[type(kind)]
    return kernels.INTEGER, _INTEGER_BYTES[type(kind)]


def _address(buffer: Any) -> int:
    return 0 if buffer is None else int(buffer.address)


def _text_bytes(column: Any, buffers: list[Any]) -> int:
    """How many bytes the texts of a column have together."""
    if buffers[1] is None or not len(column):
        return 0
    edges = np.frombuffer(buffers[1], np.int32)
    return int(edges[column.offset + len(column)]) - int(edges[column.offset])
