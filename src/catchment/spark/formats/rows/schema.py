"""Rows of Spark in Avro: the schema that they are written with, and the columns that cannot be written.

Behaviour
    Every value may be null. A map with keys that are not text is an array of entries, a void a boolean that is always null, and
    what Avro has no type for is a number: small integers, intervals of days to seconds, times of day. The schema holds Spark's
    own as `spark.schema`, by which columns get their types back.
    A name that Avro does not allow is escaped: each character that it lacks becomes `_x` with its code in hexadecimal and `_`.
    The name of the record ends with a digest of the whole schema: Avro's fingerprint leaves logical types out, and two schemas
    that differ in nothing else must not be taken for one another.
Gaps
    Year-month intervals have no Arrow type in PySpark: cast them to int. Variants, geometries, calendar intervals, user-defined
    types and strings with a collation are refused.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any, Final, NamedTuple

from pyspark.sql import types as spark

from catchment.client.errors import SettingsError

SPARK_SCHEMA: Final = "spark.schema"
MARKER: Final = b"\xc3\x01"
"""What a record begins with in Avro's single-object encoding. The fingerprint of its schema follows."""
FRAME_BYTES: Final = len(MARKER) + 8

_PLAIN: Final[dict[type[spark.DataType], Any]] = {
    spark.NullType: "boolean",
    spark.BooleanType: "boolean",
    spark.ByteType: "int",
    spark.ShortType: "int",
    spark.IntegerType: "int",
    spark.LongType: "long",
    spark.FloatType: "float",
    spark.DoubleType: "double",
    spark.StringType: "string",
    spark.BinaryType: "bytes",
    spark.DateType: {"type": "int", "logicalType": "date"},
    spark.TimestampType: {"type": "long", "logicalType": "timestamp-micros"},
    spark.TimestampNTZType: {"type": "long", "logicalType": "local-timestamp-micros"},
    spark.DayTimeIntervalType: "long",
    spark.TimeType: "long",
}
_DIGEST_LETTERS: Final = 16
_NAMESPACE: Final = "catchment"
_NOT_IN_NAMES: Final = re.compile(r"[^A-Za-z0-9_]|^[0-9]|^$|_(?=x)")


class Obstacle(NamedTuple):
    """A value of a row that cannot be written."""

    path: str
    """The column, and inside of it the way to the value: `order.items[].price`."""
    what: str
    """What it is, such as `variant`."""


def obstacles(schema: spark.StructType) -> list[Obstacle]:
    """All that keeps rows from being written."""
    return list(_of_struct(schema, ""))


def _of_struct(struct: spark.StructType, path: str) -> Iterator[Obstacle]:
    for name in dict.fromkeys(name for name in struct.names if struct.names.count(name) > 1):
        yield Obstacle(f"{path}{name}", "there more than once")
    for field in struct.fields:
        yield from _of_value(field.dataType, f"{path}{field.name}")


def _of_value(kind: spark.DataType, path: str) -> Iterator[Obstacle]:
    if isinstance(kind, spark.StructType):
        yield from _of_struct(kind, f"{path}.")
    elif isinstance(kind, spark.ArrayType):
        yield from _of_value(kind.elementType, f"{path}[]")
    elif isinstance(kind, spark.MapType):
        yield from _of_value(kind.keyType, f"{path}.key")
        yield from _of_value(kind.valueType, f"{path}.value")
    elif isinstance(kind, spark.StringType) and kind != spark.StringType():
        yield Obstacle(path, f"a {kind.simpleString()}")
    elif not isinstance(kind, spark.DecimalType) and type(kind) not in _PLAIN:
        yield Obstacle(path, f"of type {kind.simpleString()}")


@lru_cache(maxsize=256)
def avro_schema_of(schema: spark.StructType) -> str:
    """The schema that rows of these columns are written with; SettingsError if they cannot be."""
    if found := obstacles(schema):
        told = ", ".join(f"{one.path} is {one.what}" for one in found)
        raise SettingsError(f"rows cannot be written as Avro: {told}", "Cast it to another type, or leave it out.")
    body = _record(schema, "row")
    digest = hashlib.sha256(json.dumps(body).encode()).hexdigest()[:_DIGEST_LETTERS]
    named = body | {"name": f"row_{digest}", "namespace": _NAMESPACE, SPARK_SCHEMA: schema.jsonValue()}
    return json.dumps(named)


@lru_cache(maxsize=256)
def spark_schema_of(text: str) -> spark.StructType:
    """The columns of rows that were written with a schema."""
    try:
        return spark.StructType.fromJson(json.loads(text)[SPARK_SCHEMA])
    except (ValueError, KeyError, TypeError) as error:
        raise SettingsError(
            f"the Avro schema does not say by {SPARK_SCHEMA} which columns its rows have: {error!r}",
            "Rows in single-object encoding are read with the schema that they were written with.",
        ) from None


@lru_cache(maxsize=256)
def frame_of(text: str) -> bytes:
    """What every row begins with that was written with a schema."""
    import fastavro
    from fastavro.schema import fingerprint, to_parsing_canonical_form

    canonical = to_parsing_canonical_form(fastavro.parse_schema(json.loads(text)))
    # Fastavro gives the bytes in the order in which they are written, the lowest first.
    return MARKER + bytes.fromhex(fingerprint(canonical, "CRC-64-AVRO"))


def escaped(name: str) -> str:
    """A name that Avro allows. No other name gives the same."""
    return _NOT_IN_NAMES.sub(lambda found: f"_x{ord(found[0]):x}_" if found[0] else "_x_", name)


def is_avro_map(kind: spark.MapType) -> bool:
    """Whether a map is one in Avro, whose keys are text."""
    return isinstance(kind.keyType, spark.StringType)


def _record(struct: spark.StructType, name: str) -> dict[str, Any]:
    """A record. Names of records are unique in a schema: each has the path to it in its name."""
    fields = [
        {"name": escaped(field.name), "type": _nullable(field.dataType, f"{name}_{position}")}
        for position, field in enumerate(struct.fields)
    ]
    return {"type": "record", "name": name, "fields": fields}


def _nullable(kind: spark.DataType, name: str) -> list[Any]:
    return ["null", _value(kind, name)]


def _value(kind: spark.DataType, name: str) -> Any:
    if isinstance(kind, spark.StructType):
        # Avro has no values that take no bytes inside arrays.
        return _record(kind, name) if kind.fields else "boolean"
    if isinstance(kind, spark.ArrayType):
        return {"type": "array", "items": _nullable(kind.elementType, f"{name}_item")}
    if isinstance(kind, spark.MapType):
        values = _nullable(kind.valueType, f"{name}_value")
        if is_avro_map(kind):
            return {"type": "map", "values": values}
        key = {"name": "key", "type": _value(kind.keyType, f"{name}_key")}
        entry = {"type": "record", "name": f"{name}_entry", "fields": [key, {"name": "value", "type": values}]}
        return {"type": "array", "items": entry}
    if isinstance(kind, spark.DecimalType):
        return {"type": "bytes", "logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
    return _PLAIN[type(kind)]
