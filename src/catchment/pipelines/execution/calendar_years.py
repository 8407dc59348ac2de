"""Moments that Spark can hold and nobody else: outside the years 1 to 9999.

Avro and Protobuf have moments as numbers, which may be any. Neither the text of a record between stages, nor a store or a lake, has
a place for years of more than four digits, so such a record is set aside before it can stop them.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from functools import reduce
from operator import or_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import ArrayType, DataType, DateType, MapType, StructType, TimestampNTZType, TimestampType

_FORMATS: Final = ("avro", "protobuf")
"""Those that have moments as numbers. Text of a moment is read by Python, whose years these are."""


def beyond_calendar(rows: DataFrame, format_name: str) -> list[Column]:
    """For each column with moments in it, what is wrong with a row that has one beyond; null if none is."""
    if format_name not in _FORMATS:
        return []
    return [
        F.when(beyond, F.lit(f"{field.name} is outside the years 1 to 9999"))
        for field in rows.schema
        if not field.name.startswith("_")
        for beyond in _beyond(F.col(f"`{field.name}`"), field.dataType)
    ]


def _beyond(value: Column, kind: DataType) -> Iterator[Column]:
    """Whether a value has a moment beyond in it; nothing if it has no moments."""
    match kind:
        case TimestampType():
            yield (value < datetime.min.replace(tzinfo=UTC)) | (value > datetime.max.replace(tzinfo=UTC))
        case TimestampNTZType() | DateType():
            yield (value < F.lit(date.min)) | (value > F.lit(date.max))
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
