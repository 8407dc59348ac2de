"""What a query gets: typed columns in place of bytes, errors in columns or as a failure, and clear words about options."""

from __future__ import annotations

import base64
import pickle
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, StringType, StructType
from tests.spark.formats.decoded_batches import column, load, raw_batch, through

from catchment.client.errors import SettingsError
from catchment.spark.formats.decoding import UndecodableRecord

BAD_TEXT = b"\xff\xfe"


def test_without_formats_key_and_value_stay_bytes() -> None:
    decoding = load()
    assert decoding.fields() == [("key", BinaryType()), ("value", BinaryType())]
    assert decoding.raw_columns(["value", "offset"]) == ["value", "offset"]
    assert through(decoding, raw_batch([b"a", None]), "value") == [{"value": b"a"}, {"value": None}]


def test_errors_have_columns_only_where_they_are_kept() -> None:
    assert [name for name, _ in load(valueFormat="string").fields()] == ["key", "value"]
    fields = load(keyFormat="String", valueFormat="STRING", onDecodeError="NULL").fields()
    assert [name for name, _ in fields] == ["key", "value", "keyError", "keyBytes", "valueError", "valueBytes"]
    assert fields[0] == ("key", StringType())


def test_a_kept_error_has_its_reason_and_bytes_and_a_null_has_neither() -> None:
    decoding = load(valueFormat="string", onDecodeError="null")
    batch = raw_batch(["é".encode(), None, BAD_TEXT, b""])
    assert through(decoding, batch, "offset", "valueBytes", "value", "valueError") == [
        {"offset": 100, "valueBytes": None, "value": "é", "valueError": None},
        {"offset": 101, "valueBytes": None, "value": None, "valueError": None},
        {
            "offset": 102,
            "valueBytes": BAD_TEXT,
            "value": None,
            "valueError": "byte 0 is not UTF-8 (invalid start byte)",
        },
        {"offset": 103, "valueBytes": None, "value": "", "valueError": None},
    ]
    assert through(decoding, batch, "valueError")[2]["valueError"].startswith("byte 0")


@pytest.mark.parametrize("on_error", ["null", "fail"])
def test_the_bytes_of_every_record_are_kept_where_they_are_asked_for(on_error: str) -> None:
    decoding = load(keyFormat="text", valueFormat="string", onDecodeError=on_error, includeBytes="true")
    batch = raw_batch([b"a", None, b""], [b"k", b"l", None])
    assert through(decoding, batch, "value", "valueBytes", "keyBytes") == [
        {"value": "a", "valueBytes": b"a", "keyBytes": b"k"},
        {"value": None, "valueBytes": None, "keyBytes": b"l"},
        {"value": "", "valueBytes": b"", "keyBytes": None},
    ]
    assert ("valueError" in dict(decoding.fields())) == (on_error == "null")


def test_the_bytes_of_a_wrong_record_are_kept_beside_those_of_the_others() -> None:
    decoding = load(valueFormat="string", onDecodeError="null", includeBytes="true")
    rows = through(decoding, raw_batch([b"a", BAD_TEXT]), "valueBytes", "valueError")
    assert [row["valueBytes"] for row in rows] == [b"a", BAD_TEXT]
    assert [row["valueError"] is None for row in rows] == [True, False]


def test_a_failure_names_the_record_the_reason_and_the_remedy() -> None:
    with pytest.raises(UndecodableRecord) as failure:
        through(load(valueFormat="string"), raw_batch([b"a", BAD_TEXT, BAD_TEXT]), "value")
    assert "topic orders, partition 3, offset 101 does not decode: byte 0 is not UTF-8" in str(failure.value)
    assert "2 records of this batch" in str(failure.value)
    assert "onDecodeError to null" in str(failure.value)


def test_a_column_that_is_not_wanted_is_neither_read_nor_decoded() -> None:
    decoding = load(keyFormat="string", valueFormat="string")
    assert decoding.raw_columns(["key"]) == ["key", "topic", "partition", "offset"]
    assert through(decoding, raw_batch([BAD_TEXT], [b"k"]), "key") == [{"key": "k"}]
    assert load(valueFormat="string", onDecodeError="null").raw_columns(["valueError"]) == ["value"]


def test_rows_of_a_sliced_batch_are_its_own() -> None:
    batch = raw_batch([b"a", None, b"c", BAD_TEXT, b"e"]).slice(1, 4)
    rows = through(load(valueFormat="string", onDecodeError="null"), batch, "value", "valueBytes")
    assert rows == [
        {"value": None, "valueBytes": None},
        {"value": "c", "valueBytes": None},
        {"value": None, "valueBytes": BAD_TEXT},
        {"value": "e", "valueBytes": None},
    ]


@given(st.lists(st.one_of(st.none(), st.binary(max_size=6), st.text(max_size=6).map(str.encode)), max_size=20))
def test_text_is_what_python_decodes(payloads: list[bytes | None]) -> None:
    rows = through(load(valueFormat="string", onDecodeError="null"), raw_batch(payloads), "value", "valueBytes")
    for payload, row in zip(payloads, rows, strict=True):
        try:
            assert row == {"value": None if payload is None else payload.decode(), "valueBytes": None}
        except UnicodeDecodeError:
            assert row == {"value": None, "valueBytes": payload}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"valueFormat": "xml"}, "the option valueFormat is 'xml'.*avro, csv, json, protobuf, string, text"),
        ({"valueFormat": "string", "onDecodeError": "skip"}, "onDecodeError is 'skip'.*fail, null"),
        ({"keySchema": "string"}, "keySchema has no meaning without keyFormat"),
        ({"valueFormat": "avro"}, "there is no schema.*Set valueSchema or valueSchemaFile, or schemaRegistry"),
        ({"valueFormat": "avro", "valueSchema": "{"}, "the Avro schema is not valid"),
        ({"valueFormat": "avro", "valueSchema": "int", "valueFraming": "x"}, "valueFraming is 'x'.*none, confluent"),
        ({"valueFormat": "string", "valueSchema": "int"}, "neither a schema nor frames"),
        ({"valueFormat": "json", "valueSchemaFile": "/nowhere/at/all"}, "cannot read the file /nowhere/at/all"),
        (
            {"valueFormat": "json", "valueSchema": "a int", "valueSchemaFile": "x"},
            "both valueSchema and valueSchemaFile",
        ),
        ({"valueFormat": "avro", "schemaRegistry": "file:///etc"}, "http or https"),
        (
            {"valueFormat": "avro", "schemaRegistry": "http://h", "schemaRegistry.user": "u"},
            "either schemaRegistry.user",
        ),
    ],
)
def test_a_wrong_option_is_refused_with_what_would_be_right(options: dict[str, str], message: str) -> None:
    with pytest.raises(SettingsError, match=message):
        load(**options)


def test_schemas_come_from_files_too(tmp_path: Path) -> None:
    schema = tmp_path / "order.avsc"
    schema.write_text('{"type": "record", "name": "R", "fields": [{"name": "id", "type": "long"}]}')
    decoding = load(valueFormat="avro", valueSchemaFile=str(schema))
    schema.unlink()
    assert column(decoding, [b"\x02"]) == [{"id": 1}]


def test_a_decoding_survives_pickling_and_keeps_no_secret_in_its_text() -> None:
    options = {"valueFormat": "avro", "valueSchema": '"long"', "schemaRegistry": "http://me:hidden-a@127.0.0.1:9"}
    decoding = load(**options, keyFormat="string")
    text = repr(decoding)
    assert "hidden-a" not in text
    assert base64.b64encode(b"me:hidden-a").decode() not in text
    assert "http://127.0.0.1:9" in text
    assert pickle.loads(pickle.dumps(decoding)) == decoding
    assert not isinstance(decoding.fields()[1][1], StructType)
