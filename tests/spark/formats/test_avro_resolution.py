"""Changed schemas: moving whole columns gives the same as resolving record by record, and takes the usual changes."""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from tests.spark.formats import avro_samples as samples

from catchment.client.errors import SettingsError
from catchment.spark.formats.avro import schema as avro_schema
from catchment.spark.formats.avro.decoder import AvroDecoder, AvroSchema, resolve, resolve_one_by_one, resolver_of
from catchment.spark.formats.avro.projection import projection
from catchment.spark.formats.payloads import Payloads

ADDED: list[tuple[Any, Any]] = [
    ("long", 7),
    ("string", "é"),
    ("bytes", "\u00ff"),
    (["bytes", "null"], "\u00ff"),
    (["null", "string"], None),
    ({"type": "array", "items": "int"}, [1, 2]),
    ({"type": "map", "values": "boolean"}, {"k": True}),
    ({"type": "int", "logicalType": "date"}, 3),
]


def record(fields: list[dict[str, Any]]) -> Any:
    return {"type": "record", "name": "Top", "fields": fields}


def schema_of(schema: Any) -> AvroSchema:
    return AvroSchema(json.dumps(schema))


def is_projected(writer: Any, reader: Any) -> bool:
    nodes = [avro_schema.tree(*avro_schema.parse(json.dumps(schema))) for schema in (writer, reader)]
    return projection(nodes[0], nodes[1], avro_schema.parse(json.dumps(reader))[0]) is not None


@st.composite
def changed_schemas(draw: st.DrawFn) -> tuple[Any, Any, list[Any]]:
    """A writer's record, a reader's with some of its fields and with new ones, and values of the writer's."""
    kinds = samples.named(draw(st.lists(samples.SCHEMAS, min_size=1, max_size=4)))
    fields = [{"name": f"f{number}", "type": kind} for number, kind in enumerate(kinds)]
    kept = draw(st.permutations(fields).flatmap(lambda some: st.integers(0, len(some)).map(lambda count: some[:count])))
    added = [
        {"name": f"new{number}", "type": kind, "default": default}
        for number, (kind, default) in enumerate(draw(st.lists(st.sampled_from(ADDED), max_size=2)))
    ]
    writer, reader = record(fields), record([*kept, *added])
    assume(samples.is_accepted(writer) and samples.is_accepted(reader))
    return writer, reader, draw(st.lists(st.one_of(st.none(), samples.values(writer)), max_size=4))


@given(changed_schemas(), st.binary(max_size=3))
def test_columns_give_what_record_by_record_gives(sample: tuple[Any, Any, list[Any]], damage: bytes) -> None:
    writer, reader, values = sample
    assume(resolver_of(schema_of(writer), schema_of(reader)).is_sure)
    payloads = [None if value is None else samples.written(writer, value) for value in values]
    rows = Payloads.of(pa.array([*payloads, damage], pa.binary()))
    by_columns = resolve(schema_of(writer), schema_of(reader), rows)
    by_columns.column.validate(full=True)
    known = AvroDecoder(schema_of(writer)).decode(rows).errors
    one_by_one = resolve_one_by_one(schema_of(writer), schema_of(reader), rows, known)
    assert by_columns.errors == one_by_one.errors
    assert by_columns.column.type == one_by_one.column.type
    assert by_columns.column.to_string(window=1000) == one_by_one.column.to_string(window=1000)


@pytest.mark.parametrize(
    ("old", "new", "value", "shown"),
    [
        ("int", "long", 5, 5),
        ("int", "double", 5, 5.0),
        ("float", "double", 0.5, 0.5),
        ("string", ["null", "string"], "a", "a"),
        ({"type": "array", "items": "int"}, ["null", {"type": "array", "items": "int"}], [1], [1]),
    ],
)
def test_wider_types_need_no_record_by_record(old: Any, new: Any, value: Any, shown: Any) -> None:
    writer, reader = record([{"name": "f", "type": old}]), record([{"name": "f", "type": new}])
    assert is_projected(writer, reader)
    rows = Payloads.of(pa.array([samples.written(writer, {"f": value}), None], pa.binary()))
    assert resolve(schema_of(writer), schema_of(reader), rows).column.to_pylist() == [{"f": shown}, None]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("long", "int"),
        (["null", "int"], "int"),
        ("string", "bytes"),
        (["null", "int"], ["int", "null"]),
        ("int", ["int", "string"]),
        ({"type": "int", "logicalType": "date"}, "long"),
        ({"type": "enum", "name": "E", "symbols": ["A", "B"]}, {"type": "enum", "name": "E", "symbols": ["B", "A"]}),
    ],
)
def test_other_changes_are_left_to_record_by_record(old: Any, new: Any) -> None:
    assert not is_projected(record([{"name": "f", "type": old}]), record([{"name": "f", "type": new}]))


def test_fields_found_by_an_alias_are_left_to_record_by_record() -> None:
    writer = record([{"name": "old", "type": "int"}])
    reader = record([{"name": "new", "type": "int", "aliases": ["old"], "default": 0}])
    assert not is_projected(writer, reader)
    rows = Payloads.of(pa.array([b"\x0a"], pa.binary()))
    assert resolve(schema_of(writer), schema_of(reader), rows).column.to_pylist() == [{"new": 5}]


def test_unions_that_fastavro_could_confuse_are_moved_as_columns_or_refused() -> None:
    union = {"name": "f", "type": ["bytes", "string", "double", "long"]}
    inner = {"type": "record", "name": "In", "fields": [{"name": "x", "type": "int"}]}
    wider = {**inner, "fields": [{"name": "x", "type": "long"}]}
    rows = Payloads.of(pa.array([b"\x02\x02a\x02", b"\x06\x06\x02"], pa.binary()))
    writer = schema_of(record([union, {"name": "in", "type": inner}]))
    moved = resolve(writer, schema_of(record([union])), rows).column.to_pylist()
    assert [row["f"] for row in moved] == [
        {"member0": None, "member1": "a", "member2": None, "member3": None},
        {"member0": None, "member1": None, "member2": None, "member3": 3},
    ]
    with pytest.raises(SettingsError, match="are not resolved"):
        resolve(writer, schema_of(record([union, {"name": "in", "type": wider}])), rows)
