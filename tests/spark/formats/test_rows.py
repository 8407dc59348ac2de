"""Rows of every type that PySpark's Arrow conversion takes, through the encoder and the decoder, with fastavro as the judge."""

from __future__ import annotations

import io
import json
import math
import struct
from datetime import UTC, date, datetime, time, timedelta
from decimal import Context, Decimal
from typing import Any

import fastavro
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as spark

from catchment.client.errors import SettingsError
from catchment.spark.formats.decoder import arrow_type
from catchment.spark.formats.payloads import Payloads
from catchment.spark.formats.rows.decoding import NOT_FRAMED, RowDecoder
from catchment.spark.formats.rows.encoding import RowEncoder
from catchment.spark.formats.rows.schema import (
    FRAME_BYTES,
    MARKER,
    avro_schema_of,
    escaped,
    frame_of,
    obstacles,
    spark_schema_of,
)

FIRST, LAST = (datetime.fromisoformat(one) for one in ("0001-01-01", "9999-12-31T23:59:59.999999"))
LONGEST_US = 10**15
_EXACT = Context(prec=60)
NAMES = st.one_of(st.sampled_from(["id", "at", "a b", "Straße", "1st", "_x20_", "_", "end"]), st.text(max_size=3))


def _integers(bits: int) -> st.SearchStrategy[int]:
    edge = 2 ** (bits - 1)
    return st.one_of(st.integers(-edge, edge - 1), st.sampled_from([-edge, edge - 1, 0, -1]))


LEAVES: dict[spark.DataType, st.SearchStrategy[Any]] = {
    spark.NullType(): st.none(),
    spark.BooleanType(): st.booleans(),
    spark.ByteType(): _integers(8),
    spark.ShortType(): _integers(16),
    spark.IntegerType(): _integers(32),
    spark.LongType(): _integers(64),
    spark.FloatType(): st.one_of(st.floats(width=32), st.sampled_from([math.nan, -0.0, math.inf])),
    spark.DoubleType(): st.one_of(st.floats(), st.sampled_from([math.nan, -0.0, -math.inf])),
    spark.StringType(): st.text(max_size=5),
    spark.BinaryType(): st.binary(max_size=5),
    spark.DateType(): st.one_of(st.dates(), st.sampled_from([date.min, date.max])),
    spark.TimestampType(): st.one_of(st.datetimes(), st.sampled_from([FIRST, LAST])).map(
        lambda one: one.replace(tzinfo=UTC)
    ),
    spark.TimestampNTZType(): st.one_of(st.datetimes(), st.sampled_from([FIRST, LAST])),
    spark.DayTimeIntervalType(): st.integers(-LONGEST_US, LONGEST_US).map(lambda one: timedelta(microseconds=one)),
    spark.TimeType(): st.one_of(st.times(), st.sampled_from([time.min, time.max])),
}


def _struct_of(kinds: st.SearchStrategy[spark.DataType], least: int = 1) -> st.SearchStrategy[spark.StructType]:
    fields = st.lists(st.tuples(NAMES, kinds, st.booleans()), min_size=least, max_size=4, unique_by=lambda one: one[0])
    return fields.map(lambda found: spark.StructType([_field(*one) for one in found]))


def _field(name: str, kind: spark.DataType, nullable: bool) -> spark.StructField:
    return spark.StructField(name, kind, nullable or isinstance(kind, spark.NullType))


DECIMALS = st.integers(1, 38).flatmap(
    lambda digits: st.integers(0, digits).map(lambda scale: spark.DecimalType(digits, scale))
)
TYPES = st.recursive(
    st.one_of(st.sampled_from(list(LEAVES)), DECIMALS),
    lambda kinds: st.one_of(
        st.builds(spark.ArrayType, kinds),
        st.builds(spark.MapType, kinds.filter(lambda kind: not isinstance(kind, spark.NullType)), kinds),
        _struct_of(kinds, least=0),
    ),
    max_leaves=6,
)


def _values(kind: spark.DataType, *, nullable: bool = True) -> st.SearchStrategy[Any]:
    found = _present(kind)
    return st.one_of(st.none(), found) if nullable else found


def _present(kind: spark.DataType) -> st.SearchStrategy[Any]:
    if isinstance(kind, spark.DecimalType):
        most = 10**kind.precision - 1
        return st.integers(-most, most).map(lambda one: Decimal(one).scaleb(-kind.scale, _EXACT))
    if isinstance(kind, spark.ArrayType):
        return st.lists(_values(kind.elementType), max_size=3)
    if isinstance(kind, spark.MapType):
        entries = st.tuples(_values(kind.keyType, nullable=False), _values(kind.valueType))
        return st.lists(entries, max_size=3, unique_by=lambda one: repr(one[0]))
    if isinstance(kind, spark.StructType):
        # A field that is said to hold no nulls holds none.
        return st.fixed_dictionaries({field.name: _values(field.dataType, nullable=field.nullable) for field in kind})
    return LEAVES[kind]


def _in_avro(value: Any, kind: spark.DataType) -> Any:
    """A value as fastavro reads and writes it."""
    if isinstance(kind, spark.NullType) or value is None:
        return None
    if isinstance(kind, spark.StructType):
        if not kind.fields:
            return True
        return {escaped(field.name): _in_avro(value[field.name], field.dataType) for field in kind}
    if isinstance(kind, spark.ArrayType):
        return [_in_avro(one, kind.elementType) for one in value]
    if isinstance(kind, spark.MapType):
        entries = [(_in_avro(key, kind.keyType), _in_avro(one, kind.valueType)) for key, one in value]
        if isinstance(kind.keyType, spark.StringType):
            return dict(entries)
        return [{"key": key, "value": one} for key, one in entries]
    if isinstance(kind, spark.DayTimeIntervalType):
        return value // timedelta(microseconds=1)
    if isinstance(kind, spark.TimeType):
        since_midnight = datetime.combine(date.min, value) - FIRST
        return since_midnight // timedelta(microseconds=1) * 1000
    return value


def _bits(value: Any) -> Any:
    """A value in which every NaN equals itself, and zeros of both signs differ."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    if isinstance(value, dict):
        return {name: _bits(one) for name, one in value.items()}
    return [_bits(one) for one in value] if isinstance(value, list | tuple) else value


@st.composite
def _tables(draw: st.DrawFn) -> tuple[spark.StructType, list[Any]]:
    schema = draw(_struct_of(TYPES))
    return schema, draw(st.lists(_values(schema), max_size=4))


@settings(max_examples=150, deadline=None)
@given(_tables())
def test_rows_of_any_type_are_the_avro_that_fastavro_reads_and_writes(
    table: tuple[spark.StructType, list[Any]],
) -> None:
    schema, rows = table
    column = pa.array(rows, arrow_type(schema))
    avro = fastavro.parse_schema(json.loads(avro_schema_of(schema)))
    encoded = RowEncoder(schema, framed=True).encode(column)
    payloads = [one.as_py() for one in encoded]
    for row, payload in zip(rows, payloads, strict=True):
        if row is None:
            assert payload is None
            continue
        expected = _in_avro(row, schema)
        body = io.BytesIO(payload[FRAME_BYTES:])
        assert payload[:FRAME_BYTES] == frame_of(avro_schema_of(schema))
        assert _bits(fastavro.schemaless_reader(body, avro)) == _bits(expected)
        assert not body.read(), "bytes are left"
        written = io.BytesIO()
        fastavro.schemaless_writer(written, avro, expected)
        assert written.getvalue() == payload[FRAME_BYTES:]
    decoded = RowDecoder((avro_schema_of(schema),)).decode(Payloads.of(encoded))
    assert not decoded.errors
    assert decoded.column.type == arrow_type(schema)
    decoded.column.validate(full=True)
    assert _bits(decoded.column.to_pylist()) == _bits(column.to_pylist())


@settings(max_examples=30, deadline=None)
@given(_tables(), st.integers(0, 3), st.integers(0, 4))
def test_a_part_of_a_column_is_written_as_these_rows_alone(
    table: tuple[spark.StructType, list[Any]], start: int, length: int
) -> None:
    schema, rows = table
    encoder = RowEncoder(schema, framed=False)
    column = pa.array(rows, arrow_type(schema))
    whole = encoder.encode(column).to_pylist()
    assert encoder.encode(column.slice(start, length)).to_pylist() == whole[start : start + length]


@given(st.lists(NAMES, unique=True, max_size=20))
def test_escaped_names_are_allowed_and_stay_apart(names: list[str]) -> None:
    found = [escaped(name) for name in names]
    assert len(set(found)) == len(names)
    for name in found:
        fastavro.parse_schema({"type": "record", "name": "r", "fields": [{"name": name, "type": "int"}]})


def test_a_schema_holds_sparks_own_and_tells_types_apart_that_avro_writes_alike() -> None:
    days = spark.StructType([spark.StructField("on", spark.DateType())])
    numbers = spark.StructType([spark.StructField("on", spark.IntegerType())])
    assert spark_schema_of(avro_schema_of(days)) == days
    assert frame_of(avro_schema_of(days)) != frame_of(avro_schema_of(numbers))
    assert frame_of(avro_schema_of(days)).startswith(MARKER)


def _struct(**columns: spark.DataType) -> spark.StructType:
    return spark.StructType([spark.StructField(name, kind) for name, kind in columns.items()])


def _written(schema: spark.StructType, *rows: dict[str, Any]) -> list[bytes]:
    found: list[bytes] = RowEncoder(schema, framed=True).encode(pa.array(rows, arrow_type(schema))).to_pylist()
    return found


def _read(payloads: list[Any], *schemas: spark.StructType) -> tuple[list[Any], dict[int, str]]:
    decoded = RowDecoder(tuple(map(avro_schema_of, schemas))).decode(Payloads.of(pa.array(payloads, pa.binary())))
    return decoded.column.to_pylist(), decoded.errors


def test_rows_of_an_earlier_schema_are_read_with_columns_by_name() -> None:
    earlier = _struct(id=spark.StringType(), gone=spark.IntegerType(), small=spark.IntegerType())
    tags = spark.MapType(spark.IntegerType(), spark.StringType())
    later = _struct(added=tags, small=spark.LongType(), id=spark.StringType())
    payloads = [
        *_written(earlier, {"id": "a", "gone": 1, "small": 7}),
        *_written(later, {"id": "b", "small": 2**40, "added": [(1, "x")]}),
        None,
    ]
    rows, errors = _read(payloads, later, earlier)
    assert not errors
    assert rows == [
        {"added": None, "small": 7, "id": "a"},
        {"added": [(1, "x")], "small": 2**40, "id": "b"},
        None,
    ]


def test_what_may_be_null_may_change_in_any_type() -> None:
    loose = _struct(tags=spark.MapType(spark.LongType(), spark.ArrayType(spark.StringType())))
    strict = spark.StructType(
        [
            spark.StructField(
                "tags", spark.MapType(spark.LongType(), spark.ArrayType(spark.StringType(), False), False), False
            )
        ]
    )
    assert avro_schema_of(loose) != avro_schema_of(strict)
    payloads = _written(loose, {"tags": [(1, ["a"])]})
    assert _read(payloads, strict, loose) == ([{"tags": [(1, ["a"])]}], {})
    assert _read(payloads, strict) == ([{"tags": [(1, ["a"])]}], {}), "nothing that is written differs"


def test_rows_that_the_reader_cannot_know_are_distinguished_from_good_ones() -> None:
    known, other = _struct(id=spark.StringType()), _struct(id=spark.BinaryType())
    good = _written(known, {"id": "a"})[0]
    payloads = [good, _written(other, {"id": b"b"})[0], b'{"id":"c"}', good + b"\x00", good[:-1], b""]
    rows, errors = _read(payloads, known)
    assert rows == [{"id": "a"}, None, None, None, None, None]
    assert errors == {
        1: "it was written with a schema that the query does not know",
        2: NOT_FRAMED,
        3: "bytes are left after the last field",
        4: "a value leads out of the record",
        5: NOT_FRAMED,
    }


def test_a_number_that_its_column_cannot_hold_is_wrong_alone() -> None:
    schema = _struct(small=spark.ByteType())
    good = _written(schema, {"small": 5})[0]
    rows, errors = _read([good, good[:-1] + b"\xd0\x0f"], schema)
    assert rows == [{"small": 5}, None]
    assert list(errors) == [1]


def test_text_that_is_not_utf_8_crosses_as_it_is() -> None:
    schema = _struct(text=spark.StringType())
    raw = pa.array([b"\xff\xfe"]).view(pa.string())
    column = pa.StructArray.from_arrays([raw], ["text"])
    encoded = RowEncoder(schema, framed=True).encode(column)
    decoded = RowDecoder((avro_schema_of(schema),)).decode(Payloads.of(encoded))
    assert not decoded.errors
    assert decoded.column.field(0).view(pa.binary()).to_pylist() == [b"\xff\xfe"]


@pytest.mark.parametrize(
    ("kind", "path", "what"),
    [
        (spark.VariantType(), "it", "of type variant"),
        (spark.StringType("UTF8_LCASE"), "it", "a string collate UTF8_LCASE"),
        (spark.ArrayType(spark.YearMonthIntervalType()), "it[]", "of type interval year to month"),
        (spark.MapType(spark.CalendarIntervalType(), spark.LongType()), "it.key", "of type interval"),
        (_struct(inner=spark.GeographyType(4326)), "it.inner", "of type geography(4326)"),
    ],
)
def test_what_cannot_be_written_is_named(kind: spark.DataType, path: str, what: str) -> None:
    schema = _struct(id=spark.LongType(), it=kind)
    assert obstacles(schema) == [(path, what)]
    with pytest.raises(SettingsError, match=f"{path}".replace("[]", r"\[\]")):
        avro_schema_of(schema)


def test_a_column_that_is_there_twice_is_named() -> None:
    twice = spark.StructType([spark.StructField("id", spark.LongType()), spark.StructField("id", spark.LongType())])
    assert obstacles(twice) == [("id", "there more than once")]
