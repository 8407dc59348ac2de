"""Schemas from a registry: which one is pinned, how records of other schemas are read, and what fails when it is away."""

from __future__ import annotations

import base64
import struct
from dataclasses import replace
from typing import Any

import pytest
from pyspark.sql.types import StructType
from tests.spark.formats.avro_samples import written
from tests.spark.formats.decoded_batches import column, load, raw_batch, through
from tests.spark.formats.registry_server import RegistryServer, framed

from catchment.client.errors import SettingsError, TimedOut
from catchment.spark.formats.avro.decoder import AvroDecoder
from catchment.spark.formats.decoding import Decoding
from catchment.spark.formats.registry import Registry, RegistryError


def record(*fields: tuple[str, Any], **defaults: Any) -> Any:
    described = [{"name": name, "type": kind} for name, kind in fields]
    for field in described:
        if field["name"] in defaults:
            field["default"] = defaults[field["name"]]
    return {"type": "record", "name": "Order", "namespace": "shop", "fields": described}


FIRST = record(("id", "int"), ("gone", "string"))
SECOND = record(("id", "long"), ("note", "string"), note="none")
TIME = {"type": "long", "logicalType": "timestamp-millis"}


def names(decoding: Decoding) -> list[str]:
    value_type = decoding.fields()[1][1]
    assert isinstance(value_type, StructType)
    return value_type.names


def rows(decoding: Decoding, values: list[bytes | None]) -> list[tuple[Any, str | None]]:
    return [(row["value"], row["valueError"]) for row in through(decoding, raw_batch(values), "value", "valueError")]


def test_the_latest_schema_of_the_topic_is_pinned_when_the_query_is_loaded(registry: RegistryServer) -> None:
    first = registry.register("orders-value", SECOND)
    decoding = load(valueFormat="avro", schemaRegistry=registry.url + "/")
    second = registry.register("orders-value", record(("id", "long"), ("note", "string"), ("more", "int"), more=7))
    assert names(decoding) == ["id", "note"]
    payloads = [
        framed(first, written(SECOND, {"id": 1, "note": "a"})),
        None,
        framed(
            second,
            written(record(("id", "long"), ("note", "string"), ("more", "int")), {"id": 2, "note": "b", "more": 3}),
        ),
    ]
    assert column(decoding, list(payloads)) == [{"id": 1, "note": "a"}, None, {"id": 2, "note": "b"}]
    assert names(load(valueFormat="avro", schemaRegistry=registry.url)) == ["id", "note", "more"]


def test_records_of_older_schemas_are_resolved_by_avros_rules(registry: RegistryServer) -> None:
    first = registry.register("orders-value", FIRST)
    second = registry.register("orders-value", SECOND)
    decoding = load(valueFormat="avro", schemaRegistry=registry.url)
    payloads = [
        framed(second, written(SECOND, {"id": 2**40, "note": "new"})),
        framed(first, written(FIRST, {"id": 7, "gone": "x"})),
        framed(second, written(SECOND, {"id": 3, "note": "new"})),
    ]
    expected = [{"id": 2**40, "note": "new"}, {"id": 7, "note": "none"}, {"id": 3, "note": "new"}]
    assert column(decoding, list(payloads)) == expected
    assert names(load(valueFormat="avro", schemaRegistry=registry.url, valueSchemaVersion="1")) == ["id", "gone"]


def test_a_schema_is_asked_for_once(registry: RegistryServer) -> None:
    first = registry.register("orders-value", FIRST)
    registry.register("orders-value", SECOND)
    decoding = load(valueFormat="avro", schemaRegistry=registry.url)
    payload = framed(first, written(FIRST, {"id": 7, "gone": "x"}))
    for _ in range(3):
        column(decoding, [payload, payload])
    assert registry.asked == ["/subjects/orders-value/versions/latest", f"/schemas/ids/{first}"]


def test_values_in_unions_keep_their_branch_when_they_are_resolved(registry: RegistryServer) -> None:
    records = [{"type": "record", "name": name, "fields": [{"name": "x", "type": "int"}]} for name in ("A", "B")]
    java_string = {"type": "string", "avro.java.string": "String"}
    branches = [*records, {"type": "enum", "name": "E", "symbols": ["x", "y"]}, java_string, "float", "double"]
    old = record(("choice", {"type": "array", "items": branches}))
    first = registry.register("orders-value", old)
    registry.register("orders-value", record(("choice", {"type": "array", "items": branches}), ("one", "int"), one=1))
    decoding = load(valueFormat="avro", schemaRegistry=registry.url)
    # One item for each branch: its index, then B with x=5, y, "y", the double 0.1 and A with x=6.
    items = b"\x02\x0a" + b"\x04\x02" + b"\x06\x02y" + b"\x0a" + struct.pack("<d", 0.1) + b"\x00\x0c"
    (shown,) = column(decoding, [framed(first, b"\x0a" + items + b"\x00")])
    chosen = [{name: value for name, value in item.items() if value is not None} for item in shown["choice"]]
    assert chosen == [
        {"member1": {"x": 5}},
        {"member2": "y"},
        {"member3": "y"},
        {"member5": 0.1},
        {"member0": {"x": 6}},
    ]
    assert shown["one"] == 1


@pytest.mark.parametrize(
    ("writer", "reader", "value", "reason"),
    [
        (record(("id", "int")), record(("id", "int"), ("must", "int")), {"id": 1}, "does not resolve"),
        (record(("id", "string")), record(("id", "int")), {"id": "a"}, "does not resolve"),
        (record(("at", TIME)), record(("at", {**TIME, "logicalType": "timestamp-micros"})), {"at": 5}, "another unit"),
        (
            record(("d", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2})),
            record(("d", {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3})),
            {"d": b"\x01"},
            "another scale",
        ),
    ],
)
def test_a_schema_that_does_not_fit_is_an_error_of_its_records(
    registry: RegistryServer, writer: Any, reader: Any, value: Any, reason: str
) -> None:
    old, new = registry.register("orders-value", writer), registry.register("orders-value", reader)
    decoding = load(valueFormat="avro", schemaRegistry=registry.url, onDecodeError="null")
    ((shown, error),) = rows(decoding, [framed(old, written(writer, value))])
    assert shown is None
    assert reason in str(error)
    assert new == old + 1


def test_bad_frames_unknown_ids_and_damage_are_errors_of_single_records(registry: RegistryServer) -> None:
    first, second = registry.register("orders-value", FIRST), registry.register("orders-value", SECOND)
    other = registry.register("else", "message M {}", "PROTOBUF")
    decoding = load(valueFormat="avro", schemaRegistry=registry.url, onDecodeError="null")
    good = framed(second, written(SECOND, {"id": 1, "note": ""}))
    shown = rows(
        decoding,
        [
            good,
            b"",
            b"\x00\x00",
            b"\x01" + good[1:],
            framed(999, b"x"),
            framed(first, b"\x02\x7f"),
            framed(other, b""),
            good,
        ],
    )
    assert [value for value, _ in shown] == [{"id": 1, "note": ""}, *[None] * 6, {"id": 1, "note": ""}]
    reasons = [error or "" for _, error in shown]
    assert all("does not begin with a zero byte" in reason for reason in reasons[1:4])
    assert reasons[4] == "the registry has no schema 999"
    assert reasons[5] == "a value leads out of the record"
    assert reasons[6] == f"its schema {other} is one of PROTOBUF, not of Avro"


def test_references_between_schemas_are_followed(registry: RegistryServer) -> None:
    registry.register("color", {"type": "enum", "name": "shop.Color", "symbols": ["RED", "BLUE"]})
    item = {"type": "record", "name": "shop.Item", "fields": [{"name": "color", "type": "shop.Color"}]}
    registry.register("item", item, references=[("shop.Color", "color", 1)])
    both = [("shop.Item", "item", 1), ("shop.Color", "color", 1)]
    text = record(("item", "shop.Item"), ("again", "shop.Color"))
    schema_id = registry.register("orders-value", text, references=both)
    decoding = load(valueFormat="avro", schemaRegistry=registry.url)
    assert column(decoding, [framed(schema_id, b"\x02\x00")]) == [{"item": {"color": "BLUE"}, "again": "RED"}]


def test_an_inline_schema_reads_frames_with_and_without_a_registry(registry: RegistryServer) -> None:
    first = registry.register("orders-value", FIRST)
    payload = framed(first, written(FIRST, {"id": 7, "gone": "x"}))
    inline = str(record(("id", "long"))).replace("'", '"')
    assert column(load(valueFormat="avro", valueSchema=inline, schemaRegistry=registry.url), [payload]) == [{"id": 7}]
    plain = str(FIRST).replace("'", '"')
    decoding = load(valueFormat="avro", valueSchema=plain, valueFraming="confluent")
    assert column(decoding, [payload]) == [{"id": 7, "gone": "x"}]


def test_failures_that_pass_are_repeated(registry: RegistryServer) -> None:
    registry.register("orders-value", SECOND)
    registry.refusals += [503, 500, 429]
    assert load(valueFormat="avro", schemaRegistry=registry.url).fields()[1][0] == "value"
    assert len(registry.asked) == 4


def test_a_registry_that_is_away_fails_the_query_after_a_deadline(registry: RegistryServer) -> None:
    first = registry.register("orders-value", FIRST)
    registry.register("orders-value", SECOND)
    decoding = load(valueFormat="avro", schemaRegistry=registry.url, onDecodeError="null")
    (decoder,) = (decoder for _, decoder in decoding.decoders)
    assert isinstance(decoder, AvroDecoder)
    assert decoder.registry is not None
    impatient = replace(decoder, registry=replace(decoder.registry, deadline_seconds=0.2))
    registry.refusals += [503] * 1000
    with pytest.raises(TimedOut, match=r"gave no answer.*HTTP 503.*from the executors"):
        column(replace(decoding, decoders=(("value", impatient),)), [framed(first, b"")])
    unreachable = Registry("http://127.0.0.1:1", deadline_seconds=0.2)
    with pytest.raises(TimedOut, match=r"http://127\.0\.0\.1:1 gave no answer"):
        unreachable.by_id(1)


@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("avro", FIRST, SECOND),
        ("protobuf", 'syntax = "proto3"; message A { int32 a = 1; }', 'syntax = "proto3"; message A { int64 a = 1; }'),
    ],
)
def test_a_registry_that_refuses_access_fails_the_query_and_makes_no_nulls(
    registry: RegistryServer, name: str, old: Any, new: Any
) -> None:
    first = registry.register("orders-value", old, kind=name.upper())
    registry.register("orders-value", new, kind=name.upper())
    decoding = load(valueFormat=name, schemaRegistry=registry.url, onDecodeError="null")
    registry.required_authorization = "a token that is no longer ours"
    with pytest.raises(SettingsError, match=r"refuses access \(HTTP 401\)"):
        column(decoding, [framed(first, b"\x00")])


@pytest.mark.parametrize(
    ("options", "header"),
    [
        ({"schemaRegistry.user": "me", "schemaRegistry.password": "hidden"}, b"me:hidden"),
        ({"schemaRegistry.token": "hidden-token"}, b""),
    ],
)
def test_credentials_are_sent_and_never_shown(registry: RegistryServer, options: dict[str, str], header: bytes) -> None:
    expected = f"Basic {base64.b64encode(header).decode()}" if header else "Bearer hidden-token"
    registry.register("orders-value", SECOND)
    registry.required_authorization = expected
    assert "hidden" not in repr(load(valueFormat="avro", schemaRegistry=registry.url, **options))
    assert registry.authorizations == [expected]
    registry.required_authorization = "another"
    with pytest.raises(SettingsError, match=r"refuses access \(HTTP 401\)") as failure:
        load(valueFormat="avro", schemaRegistry=registry.url, **options)
    assert "hidden" not in str(failure.value)


@pytest.mark.parametrize(
    ("topics", "options", "message"),
    [
        (("a", "b"), {}, "the query reads 2 topics.*Set valueSubject"),
        (("orders",), {"valueSubject": "no/such"}, "no version latest of the subject no/such"),
        (("orders",), {"valueSchemaVersion": "9"}, "no version 9 of the subject orders-value"),
        (("orders",), {"valueSchemaVersion": "first"}, "valueSchemaVersion is 'first'"),
        (("orders",), {"valueFormat": "json"}, "the subject orders-value has a schema of AVRO"),
    ],
)
def test_a_subject_that_cannot_be_read_is_refused(
    registry: RegistryServer, topics: tuple[str, ...], options: dict[str, str], message: str
) -> None:
    registry.register("orders-value", SECOND)
    with pytest.raises(SettingsError, match=message):
        load(topics, **{"valueFormat": "avro", "schemaRegistry": registry.url, **options})


def test_an_answer_that_is_no_schema_is_refused(registry: RegistryServer) -> None:
    registry.register("orders-value", SECOND, references=[("x", "missing", 1)])
    with pytest.raises(RegistryError, match="refers to version 1 of missing"):
        load(valueFormat="avro", schemaRegistry=registry.url)
    registry.refusals.append(418)
    with pytest.raises(RegistryError, match="HTTP 418"):
        load(valueFormat="avro", schemaRegistry=registry.url)
