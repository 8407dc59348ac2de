"""Protobuf columns: what Protobuf's own library reads, with the types and nulls of Spark's `from_protobuf`."""

from __future__ import annotations

import base64
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from google.protobuf.descriptor_pb2 import FileDescriptorSet
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.formats.decoded_batches import column, load, raw_batch, through
from tests.spark.formats.registry_server import RegistryServer, framed

from catchment.client.errors import SettingsError
from catchment.spark.formats.decoder import Undecodable
from catchment.spark.formats.decoding import Decoding
from catchment.spark.formats.protobuf.decoder import read_message_path
from catchment.spark.formats.protobuf.schema import compiled, message_class

ORDER = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
enum State { NEW = 0; SENT = 1; }
message Nothing {}
message Line { string sku = 1; double price = 2; }
message Order {
  int64 id = 1; uint32 u32 = 2; uint64 u64 = 3; fixed64 f64 = 4; float ratio = 5; double amount = 6; bool paid = 7;
  string customer = 8; bytes raw = 9; State state = 10; optional string note = 11; Line best = 12;
  repeated Line lines = 13; repeated sint32 counts = 14; map<string, Line> by_name = 15; map<int32, State> states = 16;
  google.protobuf.Timestamp at = 17; google.protobuf.Duration took = 18; Nothing nothing = 19;
  oneof choice { string text = 20; int32 number = 21; }
}
"""
TYPE = (
    "struct<id:bigint,u32:bigint,u64:decimal(20,0),f64:decimal(20,0),ratio:float,amount:double,paid:boolean,"
    "customer:string,raw:binary,state:string,note:string,best:struct<sku:string,price:double>,"
    "lines:array<struct<sku:string,price:double>>,counts:array<int>,by_name:map<string,struct<sku:string,price:double>>,"
    "states:map<int,string>,at:timestamp,took:interval day to second,text:string,number:int>"
)
DESCRIPTORS = compiled(ORDER, {})
Order = message_class(DESCRIPTORS, "shop.Order")
LINES = st.fixed_dictionaries({"sku": st.text(max_size=3), "price": st.floats(allow_nan=False)})
SECONDS = st.integers(-(10**9), 10**9)
MOMENTS = st.fixed_dictionaries({"seconds": SECONDS, "nanos": st.integers(0, 10**9 - 1)})
FIELDS: dict[str, st.SearchStrategy[Any]] = {
    "id": st.integers(-(2**63), 2**63 - 1),
    "u32": st.integers(0, 2**32 - 1),
    "u64": st.integers(0, 2**64 - 1),
    "f64": st.integers(0, 2**64 - 1),
    "ratio": st.floats(width=32, allow_nan=False),
    "amount": st.floats(allow_nan=False),
    "paid": st.booleans(),
    "customer": st.text(max_size=5),
    "raw": st.binary(max_size=5),
    "state": st.sampled_from([0, 1, 7]),
    "note": st.text(max_size=3),
    "best": LINES,
    "lines": st.lists(LINES, max_size=3),
    "counts": st.lists(st.integers(-(2**31), 2**31 - 1), max_size=3),
    "by_name": st.dictionaries(st.text(max_size=3), LINES, max_size=3),
    "states": st.dictionaries(st.integers(-9, 9), st.sampled_from([0, 1]), max_size=2),
    "at": MOMENTS,
    "took": MOMENTS,
    "number": st.integers(-9, 9),
}
MESSAGES = st.fixed_dictionaries({}, optional=FIELDS)
STATES = {0: "NEW", 1: "SENT", 7: "UNKNOWN_ENUM_VALUE_State_7"}


def loaded(**options: str) -> Decoding:
    return load(valueFormat="protobuf", valueSchema=DESCRIPTORS, valueMessage="Order", **options)


def is_default(value: Any) -> bool:
    return not value and str(value) != "-0.0"


def line(value: Any) -> dict[str, Any]:
    return {"sku": value["sku"] or None, "price": None if is_default(value["price"]) else value["price"]}


def expected(message: dict[str, Any]) -> dict[str, Any]:
    """What the column shows of a message that was made of these fields."""
    row: dict[str, Any] = dict.fromkeys((*FIELDS, "text"))
    row.update({name: None if is_default(value) else value for name, value in message.items()})
    row.update({name: message[name] for name in ("note", "number") if name in message})
    row["state"] = STATES[message["state"]] if message.get("state") else None
    row["best"] = line(message["best"]) if "best" in message else None
    row["lines"] = [line(item) for item in message.get("lines", [])]
    row["counts"] = message.get("counts", [])
    row["by_name"] = sorted((key, line(item)) for key, item in message.get("by_name", {}).items())
    row["states"] = sorted((key, STATES[item]) for key, item in message.get("states", {}).items())
    for name in ("u64", "f64"):
        row[name] = Decimal(row[name]) if row[name] is not None else None
    if "at" in message:
        row["at"] = datetime(1970, 1, 1, tzinfo=UTC) + span(message["at"])
    if "took" in message:
        row["took"] = span(message["took"])
    return row


def span(moment: dict[str, int]) -> timedelta:
    return timedelta(seconds=moment["seconds"], microseconds=moment["nanos"] // 1000)


def sorted_maps(row: Any) -> Any:
    return row if row is None else {**row, **{name: sorted(row[name]) for name in ("by_name", "states")}}


def test_types_are_those_of_from_protobuf_but_unsigned_numbers_fit() -> None:
    assert loaded().fields()[1][1].simpleString() == TYPE


@given(st.lists(st.one_of(st.none(), MESSAGES), max_size=5))
def test_columns_hold_what_the_messages_were_made_of(messages: list[dict[str, Any] | None]) -> None:
    payloads = [None if message is None else Order(**message).SerializeToString() for message in messages]
    shown = [sorted_maps(row) for row in column(loaded(), payloads)]
    assert shown == [None if message is None else expected(message) for message in messages]


@given(st.lists(st.binary(max_size=30), min_size=1, max_size=5), st.booleans())
def test_any_bytes_give_a_column_or_an_error_as_the_library_says(payloads: list[bytes], with_defaults: bool) -> None:
    decoding = loaded(onDecodeError="null", emitDefaultValues=str(with_defaults))
    for payload, row in zip(payloads, through(decoding, raw_batch(list(payloads)), "value", "valueBytes"), strict=True):
        assert (row["value"] is None) == (row["valueBytes"] is not None)
        if row["value"] is not None:
            assert Order.FromString(payload).id == (row["value"]["id"] or 0)


def test_one_message_whose_time_fits_into_no_column_spoils_no_other() -> None:
    payloads = [Order(id=number).SerializeToString() for number in range(1, 9)]
    payloads[5] = Order(at={"seconds": 2**62}).SerializeToString()
    payloads[6] = b"\x0a"
    rows = through(loaded(onDecodeError="null"), raw_batch(list(payloads)), "value", "valueError")
    assert [row["value"] and row["value"]["id"] for row in rows] == [1, 2, 3, 4, 5, None, None, 8]
    assert rows[5]["valueError"] == "a string is not UTF-8, or a time is beyond what microseconds can hold"
    assert rows[6]["valueError"] == "it is not a message shop.Order"


def test_text_that_is_not_utf8_is_an_error_of_its_record() -> None:
    schema = 'syntax = "proto2"; message M { optional string s = 1; }'
    decoding = load(valueFormat="protobuf", valueSchema=schema, onDecodeError="null")
    rows = through(decoding, raw_batch([b"\x0a\x01\xff", b"\x0a\x01a"]), "value", "valueError")
    assert [row["value"] for row in rows] == [None, {"s": "a"}]
    assert "not UTF-8" in rows[0]["valueError"]


def test_default_values_come_where_they_are_asked_for() -> None:
    (row,) = column(loaded(emitDefaultValues="true"), [b""])
    assert (row["id"], row["customer"], row["state"], row["paid"]) == (0, "", "NEW", False)
    assert (row["note"], row["number"], row["best"], row["at"]) == (None, None, None, None)


def test_defaults_and_required_fields_of_proto2_count() -> None:
    schema = 'syntax = "proto2"; message M { required int32 must = 1; optional int32 with = 2 [default = 5]; }'
    decoding = load(valueFormat="protobuf", valueSchema=schema, onDecodeError="null")
    rows = through(decoding, raw_batch([b"\x08\x00", b""]), "value", "valueError")
    assert rows[0]["value"] == {"must": 0, "with": 5}
    assert rows[1]["valueError"] == "it lacks must"


def test_schemas_come_as_text_as_descriptors_and_from_files_of_both(tmp_path: Path) -> None:
    text, binary = tmp_path / "order.proto", tmp_path / "order.desc"
    text.write_text(ORDER)
    binary.write_bytes(base64.b64decode(DESCRIPTORS))
    for options in ({"valueSchema": ORDER}, {"valueSchemaFile": str(text)}, {"valueSchemaFile": str(binary)}):
        decoding = load(valueFormat="protobuf", valueMessage="shop.Order", **options)
        assert decoding.fields() == loaded().fields()


def test_descriptors_without_their_imports_are_refused() -> None:
    own = FileDescriptorSet.FromString(base64.b64decode(DESCRIPTORS)).file[-1]
    alone = base64.b64encode(FileDescriptorSet(file=[own]).SerializeToString()).decode()
    with pytest.raises(SettingsError, match=r"timestamp\.proto.*--include_imports"):
        load(valueFormat="protobuf", valueSchema=alone, valueMessage="Order")


@pytest.mark.parametrize(
    ("schema", "message", "reason"),
    [
        ('syntax = "proto3"; message N { N next = 1; }', "N", "contains itself"),
        ('syntax = "proto3"; message N {}', "N", "no fields"),
        ('syntax = "proto3"; message N { int32 a = 1; }', "M", "no message M.*It has N"),
        ('syntax = "proto3"; message N { in a = 1; }', "N", 'does not compile.*"in" is not defined'),
        ('syntax = "proto3"; import "other.proto"; message N { int32 a = 1; }', "N", "does not compile"),
        ('syntax = "proto3"; enum E { A = 0; }', None, "has no message"),
    ],
)
def test_schemas_without_a_column_type_are_refused(schema: str, message: str | None, reason: str) -> None:
    options = {"valueMessage": message} if message else {}
    with pytest.raises(SettingsError, match=reason):
        load(valueFormat="protobuf", valueSchema=schema, **options)


def test_text_without_a_compiler_is_refused_with_both_remedies(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("catchment.spark.formats.protobuf.schema.find_spec", lambda _: None)
    with pytest.raises(SettingsError, match=r"pip install grpcio-tools.*descriptor_set_out"):
        load(valueFormat="protobuf", valueSchema=ORDER)
    assert loaded().fields()[1][1].simpleString() == TYPE


def test_frames_name_the_message_and_another_one_is_an_error(registry: RegistryServer) -> None:
    registry.register("line", 'syntax = "proto3"; package shop; message Line { string sku = 1; }', "PROTOBUF")
    first = 'syntax = "proto3"; package shop; import "line.proto"; message Order { Line line = 1; message In { int32 a = 1; } }'
    second = first.replace("message Order", "message Other { int32 b = 1; } message Order")
    references = [("line.proto", "line", 1)]
    old = registry.register("orders-value", first, "PROTOBUF", references)
    new = registry.register("orders-value", second, "PROTOBUF", references)
    decoding = load(valueFormat="protobuf", schemaRegistry=registry.url, valueMessage="Order", onDecodeError="null")
    body = b"\x0a\x03\x0a\x01x"
    frames = [framed(new, b"\x02\x02" + body), framed(old, b"\x00" + body), framed(new, b"\x00\x08\x01"), None]
    frames += [
        framed(old, b"\x04\x00\x00\x08\x01"),
        framed(99, b"\x00"),
        framed(old, b"\x02\x7e" + body),
        framed(old, b"\x80"),
    ]
    rows = through(decoding, raw_batch(frames), "value", "valueError")
    good = {"line": {"sku": "x"}}
    assert [row["value"] for row in rows] == [good, good, *[None] * 6]
    assert [row["valueError"] for row in rows][2:] == [
        "it holds the message shop.Other, not shop.Order",
        None,
        "it holds the message shop.Order.In, not shop.Order",
        "the registry has no schema 99",
        "it holds the message at (63,), not shop.Order",
        "the list of message indices does not end",
    ]


@given(st.binary(max_size=12))
def test_no_bytes_break_the_list_of_message_indices(payload: bytes) -> None:
    try:
        path, start = read_message_path(payload)
    except Undecodable:
        return
    assert 0 < start <= len(payload)
    assert path
