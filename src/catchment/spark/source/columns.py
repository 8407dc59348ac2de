"""The columns of the source: those of Spark's own, with key and value decoded where a format is given.

Spark does not pass the columns that a query uses to a Python source. A user can name them in `.schema("value binary")`; columns that
are not named are not built.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)

from catchment.client.errors import SettingsError
from catchment.spark.formats.decoding import Decoding

_HEADER: Final = StructType([StructField("key", StringType()), StructField("value", BinaryType())])
_RAW_TYPES: Final[dict[str, DataType]] = {
    "topic": StringType(),
    "partition": IntegerType(),
    "offset": LongType(),
    "timestamp": TimestampType(),
    "timestampType": IntegerType(),
}
_HEADERS: Final[dict[str, DataType]] = {"headers": ArrayType(_HEADER)}
WATERMARK: Final = "watermark"
BATCH_TIME: Final = "batchTime"
BATCH_ID: Final = "batchId"
BATCH_COLUMNS: Final[dict[str, DataType]] = {
    WATERMARK: TimestampType(),
    BATCH_TIME: TimestampType(),
    BATCH_ID: LongType(),
}


def source_schema(decoding: Decoding, *, include_headers: bool, include_facts: bool = False) -> StructType:
    """All columns, in the order of Spark's own source, followed by those that are new."""
    key, value, *others = decoding.fields()
    columns = dict([key, value]) | _RAW_TYPES | (_HEADERS if include_headers else {}) | dict(others)
    if include_facts:
        columns |= BATCH_COLUMNS
    return StructType([StructField(name, kind) for name, kind in columns.items()])


def check_schema(wanted: StructType, decoding: Decoding, *, include_facts: bool = False) -> None:
    """SettingsError unless every column that the user's schema names is one of ours, with its type."""
    known = source_schema(decoding, include_headers=True, include_facts=include_facts)
    types = {field.name: field.dataType for field in known}
    for field in wanted:
        if field.name not in types:
            raise SettingsError(f"the schema names a column {field.name}", f"There are {', '.join(types)}.")
        if not _is_same(field.dataType, types[field.name]):
            raise SettingsError(
                f"the schema gives column {field.name} the type {field.dataType.simpleString()}, "
                f"but it is {types[field.name].simpleString()}",
                "Give it that type and cast it in a select, or set keyFormat or valueFormat.",
            )
    if not wanted.fields:
        raise SettingsError("the schema names no column", f"There are {', '.join(types)}.")


def _is_same(given: DataType, ours: DataType) -> bool:
    """Whether two types are the same but for what may be null."""
    return given.simpleString() == ours.simpleString()
