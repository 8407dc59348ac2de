"""The type of a JSON column: from Spark's notation, from Spark's JSON of a type, or from a JSON Schema.

Of a JSON Schema only the shape counts: types, properties, items, maps by `additionalProperties`, `$ref`, and the formats
`date` and `date-time`. Its limits and patterns are not checked: it types a column, it does not validate.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final

from pyspark.errors import PySparkException
from pyspark.sql import types as spark

from catchment.client.errors import SettingsError
from catchment.spark.formats.ddl import parse_ddl

_SIMPLE: Final[dict[str, spark.DataType]] = {
    "string": spark.StringType(),
    "integer": spark.LongType(),
    "number": spark.DoubleType(),
    "boolean": spark.BooleanType(),
}
_TEXT_FORMATS: Final[dict[str, spark.DataType]] = {"date": spark.DateType(), "date-time": spark.TimestampType()}


def parse(text: str, references: Mapping[str, str]) -> spark.DataType:
    """The type that a schema's text describes; `references` are the texts of other JSON Schemas by the name they go by."""
    if not text.lstrip().startswith(("{", '"')):
        return parse_ddl(text)
    try:
        document = json.loads(text)
        others = {name: json.loads(other) for name, other in references.items()}
    except ValueError as error:
        raise SettingsError(f"the JSON schema is not valid JSON: {error}", "Correct it.") from None
    if isinstance(document, str) or document.get("type") == "struct":
        return _of_spark(document)
    return _Shapes(document, others).type_of(document, "$", ())


def _of_spark(document: Any) -> spark.DataType:
    try:
        return _all_nullable(spark._parse_datatype_json_value(document))
    except (PySparkException, KeyError, TypeError, ValueError) as error:
        raise SettingsError(
            f"the schema is not the JSON of a Spark type: {error}", "Take what schema.json() gives."
        ) from None


def _all_nullable(data_type: spark.DataType) -> spark.DataType:
    if isinstance(data_type, spark.StructType):
        return spark.StructType([spark.StructField(field.name, _all_nullable(field.dataType)) for field in data_type])
    if isinstance(data_type, spark.ArrayType):
        return spark.ArrayType(_all_nullable(data_type.elementType))
    if isinstance(data_type, spark.MapType):
        return spark.MapType(data_type.keyType, _all_nullable(data_type.valueType))
    return data_type


class _Shapes:
    """The types in one JSON Schema. A place is named like `$.lines[].sku`."""

    def __init__(self, document: Any, others: Mapping[str, Any]) -> None:
        self._document = document
        self._others = others

    def type_of(self, schema: Any, place: str, above: tuple[str, ...]) -> spark.DataType:
        if not isinstance(schema, dict):
            raise _unclear(place)
        if "$ref" in schema:
            reference = schema["$ref"]
            if reference in above:
                raise SettingsError(
                    f"the JSON Schema contains itself at {place}, and a column has no type that does",
                    "Read that part as a string, or the column as bytes.",
                )
            document, target = self._resolve(reference, place)
            return _Shapes(document, self._others).type_of(target, place, (*above, reference))
        choices = schema.get("oneOf") or schema.get("anyOf")
        if choices and "type" not in schema:
            return self._only(choices, place, above)
        name = _type_name(schema, place)
        if name == "object":
            return self._object(schema, place, above)
        if name == "array":
            return spark.ArrayType(self.type_of(schema.get("items"), f"{place}[]", above))
        if name == "string":
            return _TEXT_FORMATS.get(schema.get("format", ""), spark.StringType())
        return _SIMPLE[name]

    def _object(self, schema: dict[str, Any], place: str, above: tuple[str, ...]) -> spark.DataType:
        properties = schema.get("properties", {})
        others = schema.get("additionalProperties")
        if not properties and isinstance(others, dict):
            return spark.MapType(spark.StringType(), self.type_of(others, f"{place}.*", above))
        if not properties:
            raise _unclear(place)
        return spark.StructType(
            [
                spark.StructField(name, self.type_of(child, f"{place}.{name}", above))
                for name, child in properties.items()
            ]
        )

    def _only(self, choices: list[Any], place: str, above: tuple[str, ...]) -> spark.DataType:
        rest = [choice for choice in choices if choice != {"type": "null"}]
        if len(rest) != 1:
            raise _unclear(place)
        return self.type_of(rest[0], place, above)

    def _resolve(self, reference: str, place: str) -> tuple[Any, Any]:
        """The document and the part of it that a `$ref` means: in this document, or in one of the others by its name."""
        name, _, pointer = reference.partition("#")
        document = self._others.get(name) if name else self._document
        target = document
        for step in pointer.split("/")[1:]:
            step = step.replace("~1", "/").replace("~0", "~")
            target = target.get(step) if isinstance(target, dict) else None
        if target is None:
            raise SettingsError(
                f"the JSON Schema refers to {reference!r} at {place}, which is not there", "Correct it."
            )
        return document, target


def _type_name(schema: dict[str, Any], place: str) -> str:
    names = schema.get("type")
    if names is None and all(isinstance(value, str) for value in schema.get("enum", [None])):
        names = "string"
    names = [name for name in (names if isinstance(names, list) else [names]) if name != "null"]
    if len(names) != 1 or names[0] not in (*_SIMPLE, "object", "array"):
        raise _unclear(place)
    return str(names[0])


def _unclear(place: str) -> SettingsError:
    return SettingsError(
        f"the JSON Schema gives no single type for {place}",
        'Give the type in Spark\'s notation instead, like "id bigint, name string".',
    )
