"""Values that the sink encodes from the columns of a struct, beside values that are bytes already."""

from __future__ import annotations

import io
import json
from typing import Any

import fastavro
import pyarrow
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import BinaryType, LongType, StringType, StructType, VariantType

from catchment.client.errors import SettingsError
from catchment.spark.formats.decoding import Decoding
from catchment.spark.formats.rows.schema import FRAME_BYTES, avro_schema_of
from catchment.spark.sink.rows import check_columns
from catchment.spark.sink.values import ValueEncoding

ROW = StructType().add("id", StringType()).add("number", LongType())
SCHEMA = StructType().add("topic", StringType()).add("value", ROW).add("valueBytes", BinaryType())
AVRO = {"valueFormat": "avro"}
FRAMED = AVRO | {"valueFraming": "single-object"}


def _batch(*rows: tuple[str, dict[str, Any] | None, bytes | None]) -> pyarrow.RecordBatch:
    values = pyarrow.struct([("id", pyarrow.string()), ("number", pyarrow.int64())])
    columns = pyarrow.schema([("topic", pyarrow.string()), ("value", values), ("valueBytes", pyarrow.binary())])
    return pyarrow.RecordBatch.from_pylist([dict(zip(columns.names, row, strict=True)) for row in rows], columns)


def _read(payload: bytes) -> Any:
    return fastavro.schemaless_reader(io.BytesIO(payload), fastavro.parse_schema(json.loads(avro_schema_of(ROW))))


def test_rows_and_records_that_are_kept_as_they_came_go_through_one_write() -> None:
    encoding = ValueEncoding.read(AVRO, SCHEMA)
    check_columns(encoding.written(SCHEMA), None)
    rows = [("clean", {"id": "a", "number": 1}, None), ("quarantine", None, b"\xff{"), ("clean", None, None)]
    [batch] = encoding.apply([_batch(*rows)])
    assert batch.schema.names == ["topic", "value"]
    first, *others = batch.column("value").to_pylist()
    assert _read(first) == {"id": "a", "number": 1}
    assert others == [b"\xff{", None]


def test_framed_values_are_read_by_the_source_with_their_types() -> None:
    [batch] = ValueEncoding.read(FRAMED, SCHEMA).apply([_batch(("clean", {"id": "a", "number": 2}, None))])
    payload = batch.column("value")[0].as_py()
    assert _read(payload[FRAME_BYTES:]) == {"id": "a", "number": 2}
    decoding = Decoding.read(FRAMED | {"valueSchema": avro_schema_of(ROW)}, ["clean"])
    assert dict(decoding.fields())["value"] == ROW
    wanted = to_arrow_schema(StructType().add("value", ROW), timezone="UTC")
    records = pyarrow.RecordBatch.from_arrays([batch.column("value")], ["value"])
    assert decoding.apply(records, wanted).to_pylist() == [{"value": {"id": "a", "number": 2}}]


def test_without_a_format_rows_are_written_as_they_are() -> None:
    schema = StructType().add("value", StringType())
    encoding = ValueEncoding.read({}, schema)
    batch = pyarrow.RecordBatch.from_pylist([{"value": "x"}])
    assert encoding.written(schema) == schema
    assert list(encoding.apply([batch])) == [batch]
    with pytest.raises(SettingsError, match="column value is of type struct"):
        check_columns(ValueEncoding.read({}, SCHEMA).written(SCHEMA), None)


@pytest.mark.parametrize(
    ("options", "schema", "said"),
    [
        ({"valueFormat": "json"}, SCHEMA, "the option valueFormat cannot be 'json'"),
        (AVRO | {"valueFraming": "confluent"}, SCHEMA, "the option valueFraming cannot be 'confluent'"),
        (AVRO, StructType().add("value", StringType()), "the column value is no struct"),
        (AVRO, StructType().add("value", StructType().add("v", VariantType())), "v is of type variant"),
    ],
)
def test_what_does_not_fit_is_refused_before_anything_is_written(
    options: dict[str, str], schema: StructType, said: str
) -> None:
    with pytest.raises(SettingsError, match=said):
        ValueEncoding.read(options, schema)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({}, "valueFraming is single-object, which is for avro with a schema of its own"),
        ({"valueFormat": "json", "valueSchema": "id string"}, "which is for avro"),
        ({"valueSchema": '{"type": "int"}'}, "does not say by spark.schema which columns"),
        ({"valueSchema": avro_schema_of(ROW), "valueEarlierSchemas": "{}"}, "no JSON array of schemas"),
        ({"valueSchema": avro_schema_of(ROW), "valueEarlierSchemas": "["}, "no JSON array of schemas"),
    ],
)
def test_the_source_names_what_is_wrong_with_schemas_of_rows(options: dict[str, str], said: str) -> None:
    with pytest.raises(SettingsError, match=said):
        Decoding.read(FRAMED | options, ["clean"])
