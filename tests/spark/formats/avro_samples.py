"""Random Avro schemas with values, their bytes by fastavro, and what a column must show of them."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import fastavro
from hypothesis import strategies as st

from catchment.client.errors import SettingsError
from catchment.spark.formats.avro.decoder import AvroDecoder, AvroSchema

Schema = Any

PRIMITIVES: list[Schema] = ["boolean", "int", "long", "float", "double", "bytes", "string"]
LOGICAL: list[Schema] = [
    {"type": "int", "logicalType": "date"},
    {"type": "long", "logicalType": "timestamp-millis"},
    {"type": "long", "logicalType": "timestamp-micros"},
    {"type": "long", "logicalType": "local-timestamp-micros"},
    {"type": "bytes", "logicalType": "decimal", "precision": 12, "scale": 3},
    {"type": "fixed", "name": "F", "size": 9, "logicalType": "decimal", "precision": 18, "scale": 2},
    {"type": "fixed", "name": "F", "size": 3},
    {"type": "enum", "name": "E", "symbols": ["RED", "GREEN", "BLUE"]},
]
# A value's Python type chooses its branch.
UNIONS: list[Schema] = [["string", "long"], ["null", "boolean", "bytes", "string"], ["long", "null", "string"]]


def is_accepted(schema: Schema) -> bool:
    """Whether there is a column type for a schema; one that is refused is not a sample."""
    try:
        return AvroDecoder(AvroSchema(json.dumps(schema))).data_type is not None
    except SettingsError:
        return False


def _record(fields: list[Schema]) -> Schema:
    return {"type": "record", "name": "R", "fields": [{"name": f"f{n}", "type": kind} for n, kind in enumerate(fields)]}


def _nullable(schema: Schema, null_first: bool) -> Schema:
    return ["null", schema] if null_first else [schema, "null"]


def _inside(children: st.SearchStrategy[Schema]) -> st.SearchStrategy[Schema]:
    return st.one_of(
        st.builds(_record, st.lists(children, min_size=1, max_size=4)),
        st.builds(lambda items: {"type": "array", "items": items}, children),
        st.builds(lambda values: {"type": "map", "values": values}, children),
        st.builds(_nullable, children.filter(lambda schema: not isinstance(schema, list)), st.booleans()),
    )


SCHEMAS = st.recursive(st.sampled_from(PRIMITIVES + LOGICAL + UNIONS), _inside, max_leaves=8)


def named(schema: Schema, count: list[int] | None = None) -> Schema:
    """The same schema, in which every named type has a name of its own."""
    count = count if count is not None else [0]
    if isinstance(schema, list):
        return [named(branch, count) for branch in schema]
    if not isinstance(schema, dict):
        return schema
    copy = dict(schema)
    if "name" in copy:
        count[0] += 1
        copy["name"] = f"{schema['name']}{count[0]}"
    for key in ("items", "values"):
        if key in copy:
            copy[key] = named(copy[key], count)
    if "fields" in copy:
        copy["fields"] = [{**field, "type": named(field["type"], count)} for field in copy["fields"]]
    return copy


def values(schema: Schema) -> st.SearchStrategy[Any]:
    """Values as fastavro writes and reads them."""
    if isinstance(schema, list):
        return st.one_of([values(branch) for branch in schema])
    if isinstance(schema, str):
        return _PLAIN[schema]
    kind, logical = schema["type"], schema.get("logicalType")
    if kind == "record":
        return st.fixed_dictionaries({field["name"]: values(field["type"]) for field in schema["fields"]})
    if kind == "array":
        return st.lists(values(schema["items"]), max_size=4)
    if kind == "map":
        return st.dictionaries(st.text(max_size=3), values(schema["values"]), max_size=3)
    if kind == "enum":
        return st.sampled_from(schema["symbols"])
    if logical == "decimal":
        digits = 10 ** schema["precision"] - 1
        return st.integers(-digits, digits).map(lambda number: Decimal(number).scaleb(-schema["scale"]))
    if kind == "fixed":
        return st.binary(min_size=schema["size"], max_size=schema["size"])
    return _TIMES[logical]


_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECONDS = st.integers(-(10**15), 10**15)
_TIMES: dict[str, st.SearchStrategy[Any]] = {
    "date": st.dates(date(1, 1, 2), date(9999, 12, 30)),
    "timestamp-millis": _MICROSECONDS.map(lambda n: _EPOCH + timedelta(milliseconds=n // 1000)),
    "timestamp-micros": _MICROSECONDS.map(lambda n: _EPOCH + timedelta(microseconds=n)),
    "local-timestamp-micros": _MICROSECONDS.map(lambda n: (_EPOCH + timedelta(microseconds=n)).replace(tzinfo=None)),
}
_PLAIN: dict[str, st.SearchStrategy[Any]] = {
    "null": st.none(),
    "boolean": st.booleans(),
    "int": st.integers(-(2**31), 2**31 - 1),
    "long": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False),
    "double": st.floats(allow_nan=False),
    "bytes": st.binary(max_size=20),
    "string": st.text(max_size=20),
}


def shown(schema: Schema, value: Any) -> Any:
    """What a column's `to_pylist` gives for a value that fastavro read."""
    if isinstance(schema, list):
        branches = [branch for branch in schema if branch != "null"]
        if value is None or len(branches) == 1:
            return None if value is None else shown(branches[0], value)
        kinds = {bool: "boolean", int: "long", str: "string", bytes: "bytes"}
        chosen = kinds[type(value)]
        return {f"member{n}": value if branch == chosen else None for n, branch in enumerate(branches)}
    if isinstance(schema, dict) and schema["type"] == "record":
        return {field["name"]: shown(field["type"], value[field["name"]]) for field in schema["fields"]}
    if isinstance(schema, dict) and schema["type"] == "array":
        return [shown(schema["items"], item) for item in value]
    if isinstance(schema, dict) and schema["type"] == "map":
        return [(key, shown(schema["values"], item)) for key, item in value.items()]
    return value


def written(schema: Schema, value: Any) -> bytes:
    """A value's bytes."""
    output = io.BytesIO()
    fastavro.schemaless_writer(output, fastavro.parse_schema(schema), value)
    return output.getvalue()


def read(schema: Schema, payload: bytes) -> tuple[Any, int]:
    """A value by fastavro, and how many bytes it took."""
    source = io.BytesIO(payload)
    return fastavro.schemaless_reader(source, fastavro.parse_schema(schema), None), source.tell()
