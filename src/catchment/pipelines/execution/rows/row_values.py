"""Rows as values of records, and back: what is the same for every stage boundary, whatever it is read or written by.

Year-month intervals go through topics as numbers of months: PySpark has no Arrow type for them.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    DataType,
    IntegerType,
    MapType,
    StructField,
    StructType,
    YearMonthIntervalType,
)

from catchment.client.errors import SettingsError
from catchment.pipelines.declaration.specification import RowFormat
from catchment.spark.formats.json.values import converter
from catchment.spark.formats.rows.schema import Obstacle, avro_schema_of, obstacles, spark_schema_of

_TIMES: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "true"}
"""Spark's own format would cut microseconds off."""
_JSON: Final = _TIMES | {"timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS"}
_AVRO: Final = {"valueFormat": "avro", "valueFraming": "single-object"}


def as_json(columns: Sequence[str], *, exact: bool = True) -> Column:
    """Columns as one JSON object. Keys of topics that are there already have times without a zone in milliseconds."""
    return F.to_json(F.struct(*map(_column, columns)), _JSON if exact else _TIMES).cast("binary")


def row_values(columns: StructType, rows_as: RowFormat) -> Column:
    """A row as the value of a record: bytes, or a struct that the sink encodes."""
    fields = [on_wire(_column(one.name), one.dataType).alias(one.name) for one in columns.fields]
    return F.to_json(F.struct(*fields), _JSON).cast("binary") if rows_as == "json" else F.struct(*fields)


def encoding_options(records: DataFrame) -> dict[str, str]:
    """What the sink must know of records whose values are rows yet to be encoded."""
    return _AVRO if isinstance(records.schema["value"].dataType, StructType) else {}


def decoding_options(columns: StructType, rows_as: RowFormat, earlier: Sequence[str] = ()) -> dict[str, str]:
    """How the source reads such values. `earlier` are the schemas of rows that were written with other columns."""
    if rows_as == "json":
        return {"valueFormat": "json", "valueSchema": wire_schema(columns).json()}
    return _AVRO | {
        "valueSchema": avro_schema_of(_with_nulls(wire_schema(columns), earlier)),
        "valueEarlierSchemas": json.dumps(earlier),
    }


def value_schema(columns: StructType, rows_as: RowFormat, earlier: Sequence[str] = ()) -> StructType:
    """The type of the values that the source gives with these options."""
    wire = wire_schema(columns)
    return wire if rows_as == "json" else _with_nulls(wire, earlier)


def row_columns(columns: StructType) -> list[Column]:
    """The columns of a row, out of the column `value` that the source gives."""
    values = F.col("value")
    if wire_schema(columns) == columns:
        return [F.col("value.*")]
    return [from_wire(values.getField(one.name), one.dataType).alias(one.name) for one in columns.fields]


def row_schema(columns: StructType) -> str:
    """The Avro schema of rows; SettingsError if a column of them cannot be written."""
    return avro_schema_of(wire_schema(columns))


def require_crossing(columns: StructType, stage: str, rows_as: RowFormat | None) -> None:
    """SettingsError unless rows can go through the topic of a stage as they are."""
    found = obstacles(wire_schema(columns)) or (list(beyond_json(columns)) if rows_as == "json" else [])
    if not found:
        return
    told = "; ".join(f"column {one.path} of stage {stage} is {one.what}" for one in found)
    how = " as JSON" if rows_as == "json" else ""
    remedy = "Cast it in the stage, such as to string or with to_json, or leave it out there."
    if rows_as == "json" and not obstacles(wire_schema(columns)):
        remedy = "Leave out `format: json`, so that the topic holds Avro, which carries it; or cast it in the stage."
    raise SettingsError(f"{told}: it cannot go through a topic{how}", remedy)


def beyond_json(columns: StructType) -> list[Obstacle]:
    """The columns that JSON does not give back as they were."""
    found = []
    for one in wire_schema(columns).fields:
        try:
            converter(one.dataType)
        except SettingsError:
            found.append(Obstacle(one.name, f"of type {one.dataType.simpleString()}"))
    return found


def columns_of_schema(schema: str) -> StructType:
    """The columns of rows that are written with an Avro schema of ours."""
    return spark_schema_of(schema)


def wire_schema(columns: StructType) -> StructType:
    """Columns with the types that they have in topics."""
    wire = _wire_type(columns)
    assert isinstance(wire, StructType), "a struct stays one"
    return wire


def _wire_type(kind: DataType) -> DataType:
    if isinstance(kind, StructType):
        return StructType([StructField(one.name, _wire_type(one.dataType), one.nullable) for one in kind.fields])
    if isinstance(kind, ArrayType):
        return ArrayType(_wire_type(kind.elementType), kind.containsNull)
    if isinstance(kind, MapType):
        return MapType(_wire_type(kind.keyType), _wire_type(kind.valueType), kind.valueContainsNull)
    return IntegerType() if isinstance(kind, YearMonthIntervalType) else kind


def on_wire(value: Column, kind: DataType) -> Column:
    """A value of a row as it goes into a topic."""
    return _converted(value, kind, lambda one, _: one.cast("interval month").cast("int"))


def from_wire(value: Column, kind: DataType) -> Column:
    """A value out of a topic as it was in the row."""
    return _converted(value, kind, lambda one, interval: F.make_ym_interval(F.lit(0), one).cast(interval))


def _converted(value: Column, kind: DataType, convert: Callable[[Column, YearMonthIntervalType], Column]) -> Column:
    if isinstance(kind, YearMonthIntervalType):
        return convert(value, kind)
    if _wire_type(kind) == kind:
        return value
    if isinstance(kind, ArrayType):
        return F.transform(value, lambda item: _converted(item, kind.elementType, convert))
    if isinstance(kind, MapType):
        entries = F.transform(
            F.map_entries(value),
            lambda entry: F.struct(
                _converted(entry.getField("key"), kind.keyType, convert).alias("key"),
                _converted(entry.getField("value"), kind.valueType, convert).alias("value"),
            ),
        )
        return F.map_from_entries(entries)
    assert isinstance(kind, StructType), "nothing else has values inside"
    fields = [_converted(value.getField(one.name), one.dataType, convert).alias(one.name) for one in kind.fields]
    return F.when(value.isNotNull(), F.struct(*fields))


def _with_nulls(wire: StructType, earlier: Sequence[str]) -> StructType:
    """Columns that rows of an earlier schema do not have may be null, whatever is said of new rows."""
    known = [set(spark_schema_of(one).names) for one in earlier]
    return StructType(
        [
            StructField(one.name, one.dataType, one.nullable or any(one.name not in names for names in known))
            for one in wire.fields
        ]
    )


def _column(name: str) -> Column:
    return F.col(f"`{name.replace('`', '``')}`")
