"""JSON columns: Arrow's reader and Python's agree, a bad record spoils no other, and types come from three kinds of schema."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import types as spark
from tests.spark.formats.decoded_batches import column, load, raw_batch, through
from tests.spark.formats.registry_server import RegistryServer, framed

from catchment.client.errors import SettingsError
from catchment.spark.formats.decoder import Decoded, arrow_type
from catchment.spark.formats.json import decoder as json_text
from catchment.spark.formats.json.decoder import JsonDecoder, read_by_arrow, read_by_python
from catchment.spark.formats.json.schema import parse
from catchment.spark.formats.payloads import Payloads

ALL = (
    "a bigint, b string, c double, d boolean, e array<struct<x: int, y: string>>, f decimal(12,3), g timestamp, "
    "h smallint, i array<array<bigint>>, j float, k date, l timestamp_ntz, m array<struct<d: date, n: timestamp_ntz, r: float>>"
)
WITH_MAPS = f"{ALL}, n map<string, decimal(9,2)>, o map<string, struct<x: int, y: array<float>>>"
NUMBERS = st.one_of(
    st.integers(-(2**65), 2**65), st.floats(), st.decimals(allow_nan=False, allow_infinity=False, places=3)
)
SCALARS = st.one_of(
    st.none(), st.booleans(), NUMBERS.map(lambda n: float(n) if isinstance(n, Decimal) else n), st.text(max_size=5)
)
MOMENTS = st.datetimes(timezones=st.one_of(st.none(), st.just(UTC))).map(datetime.isoformat)
RIGHT = st.fixed_dictionaries(
    {},
    optional={
        "a": st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1)),
        "b": st.text(max_size=5),
        "c": st.one_of(st.integers(-(2**53), 2**53), st.floats(allow_nan=False, allow_infinity=False)),
        "d": st.booleans(),
        "e": st.lists(st.one_of(st.none(), st.fixed_dictionaries({"x": st.integers(-9, 9)})), max_size=3),
        "f": st.one_of(st.integers(-(10**9) + 1, 10**9 - 1), st.sampled_from(["1.5", "-0.125", "x", "1e2"])),
        "g": MOMENTS,
        "h": st.integers(-(2**15), 2**15 - 1),
        "i": st.lists(st.lists(st.integers(0, 9), max_size=2), max_size=2),
        "j": st.one_of(
            st.none(),
            st.floats(width=32, allow_nan=False, allow_infinity=False),
            st.floats(-1e39, 1e39),
            st.sampled_from([3.4028235677973366e38, 3.40282356e38, -0.0, 1e-46, "NaN", "-Infinity", 16777217]),
        ),
        "k": st.one_of(
            st.none(),
            st.dates().map(str),
            st.sampled_from(["20240229", "2024-02-30", "0000-01-01", "2024-W09-4", "2024-2-9"]),
        ),
        "l": st.one_of(
            st.none(),
            MOMENTS,
            st.sampled_from(["2024-02-29", "2024-02-29 10", "2024-02-29T10:11:12.1234567", "0000-01-01T00:00"]),
        ),
        "m": st.lists(
            st.fixed_dictionaries({}, optional={"d": st.dates().map(str), "n": MOMENTS, "r": st.floats(-4e38, 4e38)}),
            max_size=2,
        ),
        "n": st.one_of(
            st.none(),
            st.dictionaries(st.text(max_size=2), st.one_of(st.none(), st.integers(-9, 9), st.just("1.25")), max_size=3),
        ),
        "o": st.dictionaries(
            st.text(max_size=2),
            st.fixed_dictionaries({}, optional={"x": st.integers(-9, 9), "y": st.just([0.1])}),
            max_size=2,
        ),
        "other": st.recursive(SCALARS, lambda inner: st.lists(inner, max_size=2), max_leaves=3),
    },
)
WRONG = st.dictionaries(st.sampled_from("abcdefghijklmno"), SCALARS, max_size=3)
TEXTS = st.one_of(RIGHT, WRONG, SCALARS).flatmap(
    lambda value: st.sampled_from(
        [json.dumps(value), json.dumps(value, indent=1), json.dumps(value, ensure_ascii=False)]
    )
)
INJECTIONS = st.sampled_from(
    [
        "",
        " ",
        "{",
        "}",
        '{"a":1}}{"v":{"a":2}',
        '{"a":1}\n{"a":2}',
        '{"a":1},',
        '{"a":01}',
        '"',
        '{"b":"\\ud800"}',
        "[1,",
        '{"a":1,"a":2}',
        '{"a":1},"x":2',
        '{"c":Inf}',
        '{"c":"Infinity"}',
        '{"c":%s}' % ("9" * 400),
        '{"c":1e-99999999999999999999}',
        '{"x":1e99999999999999999999}',
        '{"x":%s}' % ("9" * 5000),
        '{"x":%s}' % ("[" * 3000 + "]" * 3000),
        '{"x":"\udcff"}',
        '{"g":"0000-05-01T12:00:00Z"}',
        '{"n":{"a":1,"a":2}}',
        '{"n":{"a":1},"n":{"b":2}}',
        '{"n":{"\\ud800":1}}',
        '{"n":[["a",1]]}',
        '{"o":{"a":{"y":[1e39]}}}',
        '{"n":null,"o":{}}',
    ]
)


@given(st.lists(st.one_of(st.none(), TEXTS.map(lambda text: text.encode(errors="ignore"))), max_size=4))
def test_what_arrow_accepts_python_reads_the_same(payloads: list[bytes | None]) -> None:
    data_type = parse(ALL, {})
    by_arrow = read_by_arrow(payloads, arrow_type(data_type))
    by_python = read_by_python(payloads, data_type)
    if by_arrow is None:
        return
    assert by_python.errors == {}
    assert repr(by_arrow.to_pylist()) == repr(by_python.column.to_pylist())


@given(st.lists(st.one_of(st.none(), TEXTS, INJECTIONS, st.binary(max_size=4)), min_size=1, max_size=5))
def test_records_that_are_wrong_spoil_no_others(texts: list[str | bytes | None]) -> None:
    payloads = [text.encode(errors="surrogatepass") if isinstance(text, str) else text for text in texts]
    decoding = load(valueFormat="json", valueSchema=ALL, onDecodeError="null")
    together = through(decoding, raw_batch(payloads), "value", "valueError", "valueBytes")
    alone = [through(decoding, raw_batch([payload]), "value", "valueError", "valueBytes")[0] for payload in payloads]
    assert repr(together) == repr(alone)


@given(
    st.sampled_from([ALL, WITH_MAPS]),
    st.lists(TEXTS, min_size=1, max_size=6),
    st.lists(st.tuples(st.integers(0, 99), st.one_of(st.none(), TEXTS, INJECTIONS, st.binary(max_size=4))), max_size=4),
)
def test_rows_decode_as_python_reads_each_of_them_however_few_are_wrong(
    schema: str, usual: list[str], placed: list[tuple[int, str | bytes | None]]
) -> None:
    texts: list[str | bytes | None] = [usual[number % len(usual)] for number in range(100)]
    for row, text in placed:
        texts[row] = text
    payloads = [text.encode(errors="surrogatepass") if isinstance(text, str) else text for text in texts]
    data_type = parse(schema, {})
    decoded = JsonDecoder(data_type).decode(Payloads.of(pa.array(payloads, pa.binary())))
    singly = read_by_python(payloads, data_type)
    assert decoded.errors == singly.errors
    assert decoded.column.type == singly.column.type
    decoded.column.validate(full=True)
    assert repr(decoded.column.to_pylist()) == repr(singly.column.to_pylist())


@pytest.mark.parametrize(
    "schema", ["a int, r float", "a int, d date", "a int, n timestamp_ntz", "a int, m map<string,int>", "a int"]
)
def test_only_the_rows_around_what_is_wrong_are_read_singly(schema: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sound = b'{"a":1,"r":0.5,"d":"2024-02-29","n":"2024-02-29T10:11:12","m":{"k":1}}'
    payloads = [sound] * 5_000
    payloads[1234] = b'{"a":'
    singly: list[int] = []

    def counted(rows: list[bytes | None], data_type: spark.DataType) -> Decoded:
        singly.append(len(rows))
        return read_by_python(rows, data_type)

    monkeypatch.setattr(json_text, "read_by_python", counted)
    decoded = JsonDecoder(parse(schema, {})).decode(Payloads.of(pa.array(payloads, pa.binary())))
    assert decoded.errors == {1234: "not JSON: Expecting value at character 6"}
    assert decoded.column.null_count == 1
    assert sum(singly) <= 32


@given(st.lists(RIGHT.map(lambda value: {key: value.get(key) for key in "abcd"}), max_size=5))
def test_values_are_what_was_written(values: list[dict[str, Any]]) -> None:
    decoding = load(valueFormat="json", valueSchema="a bigint, b string, c double, d boolean")
    assert column(decoding, [json.dumps(value).encode() for value in values]) == values


def test_every_type_that_json_can_hold() -> None:
    schema = "s string, i int, x double, r float, b boolean, t timestamp, n timestamp_ntz, d date, c decimal(5,2), m map<string,int>"
    payload = (
        b'{"s":"\\u00e9", "i":-1, "x":1, "r":0.5, "b":true, "t":"2024-01-01T01:00:00+01:00", "n":"2024-01-01T01:00:00",'
        b' "d":"2024-02-29", "c":12.5, "m":{"k":1,"z":null}, "unknown":{"deep":[1]}}'
    )
    (row,) = column(load(valueFormat="json", valueSchema=schema), [payload])
    assert row == {
        "s": "é",
        "i": -1,
        "x": 1.0,
        "r": 0.5,
        "b": True,
        "t": datetime(2024, 1, 1, tzinfo=UTC),
        "n": datetime.fromisoformat("2024-01-01T01:00:00"),
        "d": date(2024, 2, 29),
        "c": Decimal("12.50"),
        "m": [("k", 1), ("z", None)],
    }


@pytest.mark.parametrize(
    ("schema", "text", "reason"),
    [
        ("a int", '{"a":"1"}', "$.a is a string, not a whole number"),
        ("a int", '{"a":1.0}', "$.a is a number, not a whole number"),
        ("a int", '{"a":true}', "$.a is a boolean, not a whole number"),
        ("a int", '{"a":2147483648}', "$.a does not fit into 32 bits"),
        ("a string", '{"a":1}', "$.a is a number, not a string"),
        ("a struct<b: array<boolean>>", '{"a":{"b":[0]}}', "$.a.b[] is a number, not a boolean"),
        ("a double", '{"a":1e400}', "$.a is beyond what a double can hold"),
        ("a decimal(4,2)", '{"a":1.005}', "$.a is no decimal(4,2)"),
        ("a decimal(4,2)", '{"a":"NaN"}', "$.a is a string, not a decimal"),
        ("a timestamp", '{"a":"yesterday"}', "$.a is not a time as in ISO 8601"),
        ("a date", '{"a":5}', "$.a is a number, not a date in a string"),
        ("a map<string,int>", '{"a":[]}', "$.a is an array, not an object"),
        ("a int", "[]", "$ is an array, not an object"),
        ("a int", "", "not JSON: Expecting value at character 1"),
        ("a int", '\ufeff{"a":1}', "not JSON: Unexpected UTF-8 BOM (decode using utf-8-sig) at character 1"),
        ("a int", "[" * 100_000, "nested too deeply"),
        ("a int", '{"a":' + "1" * 5000 + "}", "a number has too many digits"),
        ("a float", '{"a":1e300}', "$.a is beyond what a float can hold"),
        ("a float", '{"a":-3.5e38}', "$.a is beyond what a float can hold"),
        (
            "a timestamp_ntz",
            '{"a":"2024-01-01T01:00:00+01:00"}',
            "$.a is not a time without a zone as in ISO 8601",
        ),
        ("a double", '{"a":1e99999999999999999999}', "the exponent of a number is too large"),
        ("a double", '{"a":' + "1" * 400 + "}", "$.a is beyond what a double can hold"),
        ("a timestamp", '{"a":"0000-05-01T12:00:00Z"}', "$.a is not a time as in ISO 8601"),
        ("a int", '{"a":1},"b":2', "not JSON: Extra data at character 8"),
        ("a map<string,int>", '{"a":{"\\ud800":1}}', "a name in it is no text"),
    ],
)
def test_the_reason_names_the_field_and_what_it_is(schema: str, text: str, reason: str) -> None:
    decoding = load(valueFormat="json", valueSchema=schema, onDecodeError="null")
    (row,) = through(decoding, raw_batch([text.encode()]), "value", "valueError")
    assert row["value"] is None
    assert reason in row["valueError"]


def test_what_spark_writes_for_numbers_that_are_none_is_read_again() -> None:
    decoding = load(valueFormat="json", valueSchema="a double, b float")
    rows = column(decoding, [b'{"a":"NaN","b":"-Infinity"}', b'{"a":NaN,"b":Infinity}', b'{"a":1.5}'])
    assert repr(rows) == repr(
        [{"a": float("nan"), "b": float("-inf")}, {"a": float("nan"), "b": float("inf")}, {"a": 1.5, "b": None}]
    )


def test_frames_are_cut_off_and_the_schema_may_be_registered(registry: RegistryServer) -> None:
    registry.register("money", {"type": "object", "properties": {"amount": {"type": "number"}}}, "JSON")
    schema = {"type": "object", "properties": {"id": {"type": "integer"}, "price": {"$ref": "money.json"}}}
    schema_id = registry.register("orders-value", schema, "JSON", references=[("money.json", "money", 1)])
    decoding = load(valueFormat="json", schemaRegistry=registry.url, onDecodeError="null")
    payloads = [framed(schema_id, b'{"id": 1, "price": {"amount": 2}}'), b"{}", None]
    rows = through(decoding, raw_batch(list(payloads)), "value", "valueError")
    assert [row["value"] for row in rows] == [{"id": 1, "price": {"amount": 2.0}}, None, None]
    assert [row["valueError"] is None for row in rows] == [True, False, True]


def object_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        ("id bigint, `odd name` STRING NOT NULL", "struct<id:bigint,odd name:string>"),
        ("struct<a: array<map<string, decimal(10)>>>", "struct<a:array<map<string,decimal(10,0)>>>"),
        ("double", "double"),
        (spark.StructType([spark.StructField("a", spark.LongType(), nullable=False)]).json(), "struct<a:bigint>"),
        (json.dumps(object_of(a={"type": ["null", "integer"]})), "struct<a:bigint>"),
        (json.dumps(object_of(a={"oneOf": [{"type": "null"}, {"type": "number"}]})), "struct<a:double>"),
        (json.dumps(object_of(a={"enum": ["x", "y"]})), "struct<a:string>"),
        (json.dumps(object_of(a={"type": "string", "format": "date-time"})), "struct<a:timestamp>"),
        (json.dumps(object_of(a={"type": "array", "items": {"type": "boolean"}})), "struct<a:array<boolean>>"),
        (json.dumps({"type": "object", "additionalProperties": {"type": "string"}}), "map<string,string>"),
        (json.dumps({**object_of(a={"$ref": "#/$defs/n"}), "$defs": {"n": {"type": "integer"}}}), "struct<a:bigint>"),
    ],
)
def test_types_come_from_ddl_from_sparks_json_and_from_json_schema(schema: str, expected: str) -> None:
    data_type = parse(schema, {})
    assert data_type.simpleString() == expected
    assert "not null" not in arrow_type(data_type).__str__()


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("id bigint, name", "not one in Spark's notation"),
        ("id bigintt", "'bigintt' is not a type"),
        ("a decimal(39,1)", "38 digits"),
        ("a int) ", "not expected"),
        ("a binary", "no values of type binary"),
        ("a map<int,int>", "no values of type map<int,int>"),
        ('{"type": "object"}', r"no single type for \$"),
        (json.dumps(object_of(a={"type": ["string", "integer"]})), r"no single type for \$\.a"),
        (json.dumps(object_of(a={"$ref": "#/nowhere"})), "refers to '#/nowhere'"),
        (json.dumps({**object_of(a={"$ref": "#"})}), "contains itself"),
        ('{"type": "struct", "fields": [{}]}', "not the JSON of a Spark type"),
        ("{", "not valid JSON"),
    ],
)
def test_schemas_without_a_type_are_refused(schema: str, message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load(valueFormat="json", valueSchema=schema)
