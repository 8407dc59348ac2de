"""Rows of delimited text: typed fields, the reason for each that is wrong, and the same whether read whole or row by row."""

from __future__ import annotations

import csv
import io
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.spark.formats.decoded_batches import column, load, raw_batch, through

from catchment.client.errors import SettingsError
from catchment.spark.formats.decoding import Decoding

SCHEMA = "id bigint, name string, price double"
QUOTED = b'0,"",0'
"""A row after which all are read one by one."""


def csv_of(schema: str = SCHEMA, **options: str) -> Decoding:
    return load(valueFormat="csv", valueSchema=schema, **options)


def errors(decoding: Decoding, values: list[bytes | None]) -> list[str | None]:
    return [row["valueError"] for row in through(decoding, raw_batch(values), "valueError")]


@pytest.mark.parametrize("extra", [[], [QUOTED]], ids=["whole", "row by row"])
def test_fields_have_the_types_of_the_schema(extra: list[bytes | None]) -> None:
    rows: list[bytes | None] = ["1,Zoë,2.5".encode(), b"-9223372036854775808,,1e3", None, b",a b,", *extra]
    assert column(csv_of(), rows)[:4] == [
        {"id": 1, "name": "Zoë", "price": 2.5},
        {"id": -(2**63), "name": None, "price": 1000.0},
        None,
        {"id": None, "name": "a b", "price": None},
    ]


def test_every_kind_of_field() -> None:
    schema = "a boolean, b tinyint, c float, d decimal(6,2), e date, f timestamp, g timestamp_ntz"
    rows: list[bytes | None] = [b"TRUE,-128,0.5,1234.5,2026-02-28,2026-02-28T01:02:03+01:00,2026-02-28T01:02:03"]
    moment = datetime(2026, 2, 28, 0, 2, 3, tzinfo=UTC)
    assert column(csv_of(schema), rows) == [
        {
            "a": True,
            "b": -128,
            "c": 0.5,
            "d": Decimal("1234.50"),
            "e": date(2026, 2, 28),
            "f": moment,
            "g": datetime.fromisoformat("2026-02-28T01:02:03"),
        }
    ]


@pytest.mark.parametrize("extra", [[], [QUOTED]], ids=["whole", "row by row"])
def test_a_wrong_row_has_its_reason_and_spoils_no_other(extra: list[bytes | None]) -> None:
    decoding = csv_of(onDecodeError="null")
    rows: list[bytes | None] = [
        b"1,a,1",
        b"1,a",
        b"1,a,1,1",
        b"x,a,1",
        b"1.0,a,1",
        b"9223372036854775808,a,1",
        b"1,a,one",
        b"1,a,1e999",
        b"\xff,a,1",
        b"",
        *extra,
    ]
    assert errors(decoding, rows)[:10] == [
        None,
        "the number of fields is 2, not 3",
        "the number of fields is 4, not 3",
        "id is not a whole number",
        "id is not a whole number",
        "id does not fit into 64 bits",
        "price is not a number",
        "price is beyond what a double can hold",
        "byte 0 is not UTF-8 (invalid start byte)",
        "the number of fields is 1, not 3",
    ]
    shown = [row["value"] for row in through(decoding, raw_batch(rows), "value", "valueError")]
    assert shown[0] == {"id": 1, "name": "a", "price": 1.0}
    assert shown[1:10] == [None] * 9


def test_quotes_hold_delimiters_quotes_and_line_ends_and_must_be_closed() -> None:
    decoding = csv_of("a string, b string", onDecodeError="null")
    rows: list[bytes | None] = [b'"x,""y""\nz",b', b'"x,y', b"x\ny,z", b"x,y\r\n"]
    shown = [row["value"] for row in through(decoding, raw_batch(rows), "value")]
    assert shown == [{"a": 'x,"y"\nz', "b": "b"}, None, None, {"a": "x", "b": "y"}]
    assert [text is None for text in errors(decoding, rows)] == [True, False, False, True]


def test_a_field_is_as_long_as_its_record_allows() -> None:
    decoding = load(valueFormat="csv", valueSchema="id string, name string")
    long = "x" * 500_000
    rows = column(decoding, [f"1,{long}".encode(), f'2,"{long}"'.encode()])
    assert rows == [{"id": "1", "name": long}, {"id": "2", "name": long}]


def test_delimiter_and_quote_are_options() -> None:
    decoding = csv_of("a string, b int", csvDelimiter="\\t", csvQuote="'")
    assert column(decoding, [b"x\t1", b"'x\ty'\t2"]) == [{"a": "x", "b": 1}, {"a": "x\ty", "b": 2}]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"valueSchema": "int"}, "needs a schema of columns"),
        ({"valueSchema": "a array<int>"}, "no fields of type array<int>, as a should be"),
        ({"valueSchema": "a binary"}, "no fields of type binary"),
        ({}, "needs a schema of its own"),
        ({"schemaRegistry": "http://localhost:1"}, "needs a schema of its own"),
        ({"valueSchema": "a int", "csvDelimiter": ";;"}, "csvDelimiter is ';;'"),
        ({"valueSchema": "a int", "csvDelimiter": '"'}, "Give two different characters"),
    ],
)
def test_what_cannot_be_is_refused(options: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load(valueFormat="csv", **options)


FIELDS = st.tuples(
    st.none() | st.integers(-(2**63), 2**63 - 1),
    st.none() | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1),
    st.none() | st.floats(allow_nan=False, allow_infinity=False),
)


def written(row: tuple[Any, ...]) -> bytes:
    text = io.StringIO()
    csv.writer(text).writerow(["" if field is None else field for field in row])
    return text.getvalue().encode()


@given(st.lists(st.none() | FIELDS), st.booleans())
def test_what_python_s_writer_writes_comes_back(rows: list[tuple[Any, ...] | None], has_line_ends: bool) -> None:
    payloads = [None if row is None else written(row).removesuffix(b"" if has_line_ends else b"\r\n") for row in rows]
    expected = [None if row is None else dict(zip(("id", "name", "price"), row, strict=True)) for row in rows]
    assert column(csv_of(), payloads) == expected


@given(st.lists(st.text("0123456789.-+eExX_ ,", max_size=8)))
def test_reading_whole_and_row_by_row_agree(texts: list[str]) -> None:
    decoding = csv_of("a int, b double", onDecodeError="null")
    rows: list[bytes | None] = [text.encode() for text in texts]
    alone = [through(decoding, raw_batch([row]), "value", "valueError")[0] for row in rows]
    together = through(decoding, raw_batch([*rows, b'"1",2']), "value", "valueError")[:-1]
    assert through(decoding, raw_batch(rows), "value", "valueError") == together == alone
