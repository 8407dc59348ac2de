"""Timestamps outside the years 1 to 9999, which only Spark can hold.

Avro and Protobuf hold timestamps as numbers, which may be any. Neither the text of a record between stages, nor a store or a lake, can
hold years of more than four digits, so such a record is quarantined before it can stop them.
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
"""The formats that hold timestamps as numbers. Timestamps in text are parsed by Python, which has this range of years."""
_EDGES: Final = ("0001-01-01 00:00:00", "9999-12-31 23:59:59.999999")
"""Spark's own literals: a Python datetime reaches Spark through Java's old calendar, which has other days before 1582."""


def beyond_calendar(schema: StructType, format_name: str) -> list[Column]:
    """For each column with timestamps, the error of a row that has one out of range; null if none is."""
    if format_name not in _FORMATS:
        return []
    return [
        F.when(beyond, F.lit(f"{field.name} is outside the years 1 to 9999"))
        for field in schema
        for beyond in _beyond(F.col(f"`{field.name}`"), field.dataType)
    ]


def _beyond(value: Column, kind: DataType) -> Iterator[Column]:
    """Whether a value contains a timestamp out of range; nothing for a type without timestamps."""
    match kind:
        case TimestampType() | TimestampNTZType():
            timestamp = value.cast(TimestampType())
            yield ~timestamp.between(*(F.expr(f"TIMESTAMP '{edge}Z'") for edge in _EDGES))
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
