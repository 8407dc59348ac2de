"""Moments that Spark can hold and nobody else: outside the years 1 to 9999.

Avro and Protobuf have moments as numbers, which may be any. Neither the text of a record between stages, nor a store or a lake, has
a place for years of more than four digits, so such a record is set aside before it can stop them.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DateType, MapType, StructType, TimestampNTZType, TimestampType

_FORMATS: Final = ("avro", "protobuf")
"""Those that have moments as numbers. Text of a moment is read by Python, whose years these are."""
_EDGES: Final = ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")
"""Spark's own literals: a moment of Python comes to Spark by way of Java's old calendar, which has other days before 1582."""


def beyond_calendar(schema: StructType, format_name: str) -> list[Column]:
    """For each column with moments in it, what is wrong with a row that has one beyond; null if none is."""
    if format_name not in _FORMATS:
        return []
    return [
        F.when(beyond, F.lit(f"{field.name} is outside the years 1 to 9999"))
        for field in schema
        for beyond in _beyond(F.col(f"`{field.name}`"), field.dataType)
    ]


def _beyond(value: Column, kind: DataType) -> Iterator[Column]:
    """Whether a value has a moment beyond in it; nothing if it has no moments."""
    match kind:
        case TimestampType() | TimestampNTZType():
            moment = value.cast(TimestampType())
            yield ~moment.between(*(F.expr(f"TIMESTAMP '{edge}Z'") for edge in _EDGES))
        case DateType():
            yield ~value.between(*(F.expr(f"DATE '{edge[:10]}'") for edge in _EDGES))
        case StructType():
            for field in kind:
                yield from _beyond(value.getField(field.name), field.dataType)
        case ArrayType():
            yield from _any(value, kind.elementType)
        case MapType():
            yield from _any(F.map_values(value), kind.valueType)


def _any(values: Column, kind: DataType) -> Iterator[Column]:
    if list(_beyond(F.lit(None), kind)):
        yield F.exists(values, lambda value: reduce(or_, _beyond(value, kind)))
