"""Decode records that `rows.encoding` wrote into Spark rows, each by the schema that its frame names.

A column that a row's own schema does not have is null, and one that the query does not ask for is left out. Text is given back as
it was written, UTF-8 or not: Spark has such text, and another format would have to change it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import types as spark

from catchment.spark.formats.bisection import wrong_rows
from catchment.spark.formats.decoder import Decoded, arrow_type
from catchment.spark.formats.framing import Framed, decode_by_schema, refuse_all
from catchment.spark.formats.payloads import Payloads
from catchment.spark.formats.rows.schema import FRAME_BYTES, MARKER, frame_of, is_avro_map, spark_schema_of

NOT_FRAMED: Final = "it does not begin with Avro's marker and the fingerprint of a schema"
_SMALL: Final = (spark.ByteType, spark.ShortType)
_COUNTED: Final = (spark.DayTimeIntervalType, spark.TimeType)


@dataclass(frozen=True)
class RowDecoder:
    """Rows of the type that the first schema pins. The others are those that rows may have been written with earlier."""

    schemas: tuple[str, ...]

    @property
    def data_type(self) -> spark.StructType:
        return spark_schema_of(self.schemas[0])

    def decode(self, payloads: Payloads) -> Decoded:
        return decode_by_schema(self._unframed(payloads), self._decode_written_with)

    def _unframed(self, payloads: Payloads) -> Framed:
        """Without frames, and with the place of each row's schema among those that are known, or the number after the last."""
        framed = payloads.present & (payloads.ends - payloads.starts >= FRAME_BYTES)
        starts = np.where(framed, payloads.starts, 0)
        prints = np.zeros(len(payloads), np.uint64)
        if framed.any():
            for byte, wanted in enumerate(MARKER):
                framed &= payloads.data[starts + np.where(framed, byte, 0)] == wanted
            for byte in reversed(range(len(MARKER), FRAME_BYTES)):
                prints = prints << np.uint64(8) | payloads.data[starts + np.where(framed, byte, 0)]
        numbers = np.full(len(payloads), len(self.schemas), np.int64)
        for number, schema in reversed(tuple(enumerate(self.schemas))):
            numbers[prints == _print_of(schema)] = number
        errors = {int(row): NOT_FRAMED for row in np.flatnonzero(payloads.present & ~framed)}
        begins = np.where(framed, payloads.starts + FRAME_BYTES, payloads.starts)
        return Framed(Payloads(payloads.data, begins, payloads.ends, framed), np.where(framed, numbers, -1), errors)

    def _decode_written_with(self, number: int, payloads: Payloads) -> Decoded:
        target = arrow_type(self.data_type)
        if number == len(self.schemas):
            return refuse_all(payloads, "it was written with a schema that the query does not know", target)
        schema = self.schemas[max(number, 0)]
        decoded = _decoded(schema, payloads)
        try:
            return Decoded(self._fitted(decoded.column, schema), decoded.errors)
        except pa.ArrowNotImplementedError as error:
            return refuse_all(payloads, f"it was written with other columns: {error}", target)
        except pa.ArrowInvalid:
            wrong = wrong_rows(payloads, lambda rows: self._fitted(_decoded(schema, rows).column, schema))
            right = payloads.without(np.isin(np.arange(len(payloads)), list(wrong)))
            return Decoded(self._fitted(_decoded(schema, right).column, schema), {**wrong, **decoded.errors})

    def _fitted(self, column: Any, schema: str) -> Any:
        """Rows of a schema as those of the query: the same columns by name, in their order."""
        written, wanted = spark_schema_of(schema), self.data_type
        same = {field.name: field.dataType for field in wanted if _is_same(written, field)}
        # Columns that differ only in what may be null get the query's type at once: not all of Arrow's can be cast to that.
        kinds = [spark.StructField(field.name, same.get(field.name, field.dataType)) for field in written]
        column = restored(column, spark.StructType(kinds))
        target = arrow_type(wanted)
        children = [_child(column, written.names, field.name, field.type) for field in target]
        return _rebuilt(target, column, 1, children)


@lru_cache(maxsize=256)
def _print_of(schema: str) -> np.uint64:
    return np.uint64(int.from_bytes(frame_of(schema)[len(MARKER) :], "little"))


def _decoded(schema: str, payloads: Payloads) -> Decoded:
    # The compiler takes longer to load than everything else, and planning processes never call this.
    from catchment.spark.formats.avro import columns as avro_columns

    return avro_columns.decode(_tree(schema), payloads)


@lru_cache(maxsize=256)
def _tree(schema: str) -> Any:
    from catchment.spark.formats.avro import schema as avro_schema

    return avro_schema.tree(*avro_schema.parse(schema))


def restored(column: Any, kind: spark.DataType) -> Any:
    """What Avro's types gave, as a column of Spark's; ArrowInvalid if a number is too large for it."""
    target = arrow_type(kind)
    if isinstance(kind, spark.NullType):
        return pa.nulls(len(column))
    if isinstance(kind, _SMALL):
        return column.cast(target)
    if isinstance(kind, _COUNTED):
        return column.view(target)
    if isinstance(kind, spark.StructType):
        children = [restored(column.field(number), field.dataType) for number, field in enumerate(kind.fields)]
        return _rebuilt(target, column, 1, children)
    if isinstance(kind, spark.ArrayType):
        return _rebuilt(target, column, 2, [restored(column.values, kind.elementType)])
    if isinstance(kind, spark.MapType):
        keys, values = (
            (column.keys, column.items) if is_avro_map(kind) else (column.values.field(0), column.values.field(1))
        )
        entries = [restored(keys, kind.keyType), restored(values, kind.valueType)]
        fields = [target.key_field, target.item_field]
        return _rebuilt(target, column, 2, [pa.StructArray.from_arrays(entries, fields=fields)])
    return column


def _child(column: Any, names: list[str], name: str, target: Any) -> Any:
    if name not in names:
        return pa.nulls(len(column), target)
    child = column.field(names.index(name))
    return child if child.type == target else child.cast(target)


def _rebuilt(target: Any, column: Any, own_buffers: int, children: list[Any]) -> Any:
    return pa.Array.from_buffers(target, len(column), column.buffers()[:own_buffers], children=children)


def _is_same(written: spark.StructType, wanted: spark.StructField) -> bool:
    return (
        wanted.name in written.names and written[wanted.name].dataType.simpleString() == wanted.dataType.simpleString()
    )
