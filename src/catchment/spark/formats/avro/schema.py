"""An Avro schema as a tree of nodes, each with the Spark type that Spark's own `from_avro` gives it.

Unions with null become what may be null; a union of int and long is a long, of float and double a double; any other union is
a struct of `member0`, `member1` … of which one is not null. Everything may be null: a record that does not decode is.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException, UnknownType
from pyspark.sql import types as spark

from catchment.client.errors import SettingsError
from catchment.spark.formats.avro import kernels

_PLAIN: Final[dict[str, tuple[int, spark.DataType]]] = {
    "null": (kernels.NULL, spark.NullType()),
    "boolean": (kernels.BOOLEAN, spark.BooleanType()),
    "int": (kernels.INT, spark.IntegerType()),
    "long": (kernels.LONG, spark.LongType()),
    "float": (kernels.FLOAT, spark.FloatType()),
    "double": (kernels.DOUBLE, spark.DoubleType()),
    "bytes": (kernels.TEXT, spark.BinaryType()),
    "string": (kernels.TEXT, spark.StringType()),
}
_TIMES: Final[dict[tuple[str, str], tuple[int, spark.DataType, int]]] = {
    ("int", "date"): (kernels.INT, spark.DateType(), 0),
    ("long", "timestamp-millis"): (kernels.LONG, spark.TimestampType(), 1000),
    ("long", "timestamp-micros"): (kernels.LONG, spark.TimestampType(), 1),
    ("long", "local-timestamp-millis"): (kernels.LONG, spark.TimestampNTZType(), 1000),
    ("long", "local-timestamp-micros"): (kernels.LONG, spark.TimestampNTZType(), 1),
}
_LARGEST_PRECISION: Final = 38
_WIDER: Final[dict[frozenset[str], spark.DataType]] = {
    frozenset(("int", "long")): spark.LongType(),
    frozenset(("float", "double")): spark.DoubleType(),
}


@dataclass(frozen=True)
class Node:
    """A type in a schema. `parameter` is a fixed size, a number of symbols, or the factor from a time to microseconds."""

    kind: int
    data_type: spark.DataType
    parameter: int = 0
    children: tuple[Node, ...] = ()
    symbols: tuple[str, ...] = ()
    branches: int = 0
    null_branch: int = -1

    def least_size(self) -> int:
        """In how many bytes its shortest value is written, as far as it matters whether that is none."""
        if self.branches or self.kind not in (kernels.NULL, kernels.RECORD, kernels.FIXED, kernels.FIXED_DECIMAL):
            return 1
        return self.parameter + sum(child.least_size() for child in self.children)


def parse(text: str, references: tuple[str, ...] = ()) -> tuple[Any, dict[str, Any]]:
    """A schema with full names, and the named types in it. What it refers to comes before it, in order."""
    names: dict[str, Any] = {}
    try:
        for reference in references:
            fastavro.parse_schema(json.loads(reference), names)
        return fastavro.parse_schema(load(text), names), names
    except (SchemaParseException, UnknownType, ValueError, KeyError, TypeError, AttributeError) as error:
        raise SettingsError(f"the Avro schema is not valid: {_reason(error)}", "Correct it.") from None


def load(text: str) -> Any:
    """The JSON of a schema. Avro's tools accept the name of a primitive type without quotation marks."""
    return text.strip() if text.strip() in _PLAIN else json.loads(text)


def _reason(error: Exception) -> str:
    return f"unknown type {error.args[0]}" if isinstance(error, UnknownType) else str(error) or type(error).__name__


def tree(schema: Any, names: dict[str, Any]) -> Node:
    """The nodes of a schema that was parsed."""
    return _node(schema, names, ())


def _node(schema: Any, names: dict[str, Any], above: tuple[str, ...]) -> Node:
    if isinstance(schema, str) and schema in names:
        schema = names[schema]
    if isinstance(schema, list):
        return _union(schema, names, above)
    if isinstance(schema, str):
        return Node(*_PLAIN[schema])
    kind = schema["type"]
    if isinstance(kind, (dict, list)):
        return _node(kind, names, above)
    if kind in ("record", "error"):
        return _record(schema, names, above)
    if kind == "array":
        item = _filled(_node(schema["items"], names, above), "array")
        return Node(kernels.ARRAY, spark.ArrayType(item.data_type), children=(item,))
    if kind == "map":
        value = _node(schema["values"], names, above)
        key = Node(kernels.TEXT, spark.StringType())
        return Node(kernels.MAP, spark.MapType(spark.StringType(), value.data_type), children=(key, value))
    if kind == "enum":
        symbols = tuple(schema["symbols"])
        return Node(kernels.ENUM, spark.StringType(), len(symbols), symbols=symbols)
    return _primitive(schema, names, above)


def _primitive(schema: dict[str, Any], names: dict[str, Any], above: tuple[str, ...]) -> Node:
    kind, logical, size = schema["type"], schema.get("logicalType"), schema.get("size", 0)
    if logical == "decimal" and kind in ("bytes", "fixed") and "precision" in schema:
        precision, scale = schema["precision"], schema.get("scale", 0)
        if precision > _LARGEST_PRECISION:
            raise SettingsError(
                f"the Avro schema has a decimal of {precision} digits, and Spark's have {_LARGEST_PRECISION} at most",
                "Leave out its logicalType, so that it is read as bytes.",
            )
        decimal = spark.DecimalType(precision, scale)
        return Node(kernels.DECIMAL if kind == "bytes" else kernels.FIXED_DECIMAL, decimal, size)
    time = _TIMES.get((kind, str(logical)))
    if time is not None:
        return Node(*time)
    if kind == "fixed":
        return Node(kernels.FIXED, spark.BinaryType(), size)
    return _node(kind, names, above)


def _record(schema: dict[str, Any], names: dict[str, Any], above: tuple[str, ...]) -> Node:
    name = schema["name"]
    if name in above:
        raise SettingsError(
            f"the Avro record {name} contains itself, and a column has no type that does",
            "Read the column as bytes, without a format, and decode it in a function of your own.",
        )
    if not schema["fields"]:
        raise SettingsError(f"the Avro record {name} has no fields, and Spark has no such struct", "Add one.")
    children = tuple(_node(field["type"], names, (*above, name)) for field in schema["fields"])
    fields = [
        spark.StructField(field["name"], child.data_type)
        for field, child in zip(schema["fields"], children, strict=True)
    ]
    return Node(kernels.RECORD, spark.StructType(fields), children=children)


def _union(branches: list[Any], names: dict[str, Any], above: tuple[str, ...]) -> Node:
    kinds = [_type_name(branch) for branch in branches]
    null_branch = kinds.index("null") if "null" in kinds else -1
    children = tuple(_node(branch, names, above) for branch in branches if _type_name(branch) != "null")
    if len(children) <= 1:
        only = children[0] if children else Node(*_PLAIN["null"])
        return replace(only, branches=len(branches), null_branch=null_branch)
    values = [kind for kind in kinds if kind != "null"]
    data_type = _WIDER.get(frozenset(values))
    if data_type is None:
        data_type = spark.StructType(
            [spark.StructField(f"member{number}", child.data_type) for number, child in enumerate(children)]
        )
    else:
        children = tuple(Node(*_PLAIN[value]) for value in values)
    return Node(kernels.UNION, data_type, children=children, branches=len(branches), null_branch=null_branch)


def _type_name(branch: Any) -> str:
    return str(branch["type"] if isinstance(branch, dict) else branch)


def _filled(item: Node, container: str) -> Node:
    """An item that takes no bytes could be there any number of times in an array of a few bytes."""
    if not item.least_size():
        raise SettingsError(
            f"the Avro schema has an {container} of items that take no bytes",
            "Read the column as bytes, without a format.",
        )
    return item


def conflict(writer: Node, reader: Node) -> str | None:
    """Why numbers of one schema would silently be others in the other: times in another unit, decimals of another scale.

    Avro resolves schemas without a look at this. Everything else that does not fit is found when a record is resolved.
    """
    of_time = (spark.TimestampType, spark.TimestampNTZType)
    if isinstance(writer.data_type, of_time) and isinstance(reader.data_type, of_time):
        return None if writer.parameter == reader.parameter else "a time has another unit in it"
    if isinstance(writer.data_type, spark.DecimalType) and isinstance(reader.data_type, spark.DecimalType):
        return None if writer.data_type.scale == reader.data_type.scale else "a decimal has another scale in it"
    if isinstance(writer.data_type, spark.StructType) and isinstance(reader.data_type, spark.StructType):
        readers = dict(zip(reader.data_type.names, reader.children, strict=True))
        pairs = [
            (child, readers[name])
            for name, child in zip(writer.data_type.names, writer.children, strict=True)
            if name in readers
        ]
    else:
        pairs = list(zip(writer.children, reader.children, strict=False)) if writer.kind == reader.kind else []
    return next((reason for pair in pairs if (reason := conflict(*pair)) is not None), None)
