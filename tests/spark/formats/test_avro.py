"""Avro columns equal what fastavro reads, for any schema; damaged bytes give an error for their record and nothing else."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from pyspark.sql import types as spark
from tests.spark.formats import avro_samples as samples

from catchment.client.errors import SettingsError
from catchment.spark.formats.avro import columns as avro_columns
from catchment.spark.formats.avro import kernels
from catchment.spark.formats.avro.decoder import AvroDecoder, AvroSchema
from catchment.spark.formats.avro.schema import Node
from catchment.spark.formats.decoder import Decoded, arrow_type
from catchment.spark.formats.payloads import Payloads

ORDER = {
    "type": "record",
    "name": "Order",
    "fields": [{"name": "id", "type": "long"}, {"name": "note", "type": ["null", "string"]}],
}


def decoder_of(schema: Any) -> AvroDecoder:
    return AvroDecoder(AvroSchema(json.dumps(schema)))


def decode(schema: Any, payloads: list[bytes | None]) -> Decoded:
    decoder = decoder_of(schema)
    decoded = decoder.decode(Payloads.of(pa.array(payloads, pa.binary())))
    decoded.column.validate(full=True)
    assert decoded.column.type == arrow_type(decoder.data_type)
    assert len(decoded.column) == len(payloads)
    return decoded


def surrounded(payloads: list[bytes], filling: int) -> Payloads:
    """The same payloads with other bytes before, between and behind them."""
    gap = bytes([filling]) * 16
    edges = np.cumsum([16 + len(payload) for payload in payloads], dtype=np.int64)
    starts = edges - np.array([len(payload) for payload in payloads], np.int64)
    data = np.frombuffer(b"".join(gap + payload for payload in payloads) + gap, np.uint8)
    return Payloads(data, starts, edges, np.ones(len(payloads), np.bool_))


@st.composite
def schemas_with_values(draw: st.DrawFn) -> tuple[Any, list[Any]]:
    schema = samples.named(draw(samples.SCHEMAS))
    assume(samples.is_accepted(schema))
    return schema, draw(st.lists(st.one_of(st.none(), samples.values(schema)), max_size=6))


@given(schemas_with_values())
def test_any_schema_gives_what_fastavro_reads(sample: tuple[Any, list[Any]]) -> None:
    schema, values = sample
    payloads = [None if value is None else samples.written(schema, value) for value in values]
    decoded = decode(schema, payloads)
    expected = [
        None if bytes_ is None else samples.shown(schema, samples.read(schema, bytes_)[0]) for bytes_ in payloads
    ]
    assert decoded.errors == {}
    assert decoded.column.to_pylist() == expected


@given(schemas_with_values(), st.data())
def test_damage_is_an_error_of_its_record_or_reads_as_fastavro_reads_it(
    sample: tuple[Any, list[Any]], data: st.DataObject
) -> None:
    schema, values = sample
    payloads = []
    for value in values:
        damaged = bytearray(b"" if value is None else samples.written(schema, value))
        for position in data.draw(st.lists(st.integers(0, max(len(damaged) - 1, 0)), max_size=3)):
            damaged[position : position + 1] = data.draw(st.binary(max_size=2))
        payloads.append(bytes(damaged[: data.draw(st.integers(0, len(damaged)))]))
    decoded = decode(schema, list(payloads))
    for row, payload in enumerate(payloads):
        if row in decoded.errors:
            assert not decoded.column[row].is_valid
            continue
        try:
            shown = decoded.column[row].as_py()
        except (OverflowError, ValueError):
            continue  # Python has no such date or time, Spark has.
        value, size = samples.read(schema, payload)
        assert size == len(payload)
        assert shown == samples.shown(schema, value) or "nan" in repr(shown)


@given(schemas_with_values(), st.lists(st.binary(max_size=12), min_size=1, max_size=8))
def test_nothing_outside_a_record_is_read(sample: tuple[Any, list[Any]], payloads: list[bytes]) -> None:
    decoder = decoder_of(sample[0])
    zeros, ones = (decoder.decode(surrounded(payloads, filling)) for filling in (0, 0xFF))
    assert zeros.errors == ones.errors
    assert zeros.column.to_string(window=1000) == ones.column.to_string(window=1000)


def test_one_bad_record_among_many_leaves_the_others_as_they_are() -> None:
    payloads: list[bytes | None] = [samples.written(ORDER, {"id": n, "note": "x" * n}) for n in range(100)]
    payloads[40], payloads[41] = b"\x02\x02\x7fabc", None
    decoded = decode(ORDER, payloads)
    assert decoded.errors == {40: "a value leads out of the record"}
    assert decoded.column.is_valid().to_pylist() == [n not in (40, 41) for n in range(100)]
    assert decoded.column[99].as_py() == {"id": 99, "note": "x" * 99}


@pytest.mark.parametrize(
    ("schema", "payload", "reason"),
    [
        ("int", b"\xff\xff\xff\xff\xff\x01", "a number does not end"),
        ("long", b"\x80", "a number does not end"),
        ("string", b"\x06ab", "a value leads out of the record"),
        ("string", b"\x02\xff", "Invalid UTF8"),
        ("boolean", b"\x02", "a boolean is neither 0 nor 1"),
        (["null", "int"], b"\x04", "a union has no such branch"),
        ({"type": "enum", "name": "E", "symbols": ["A"]}, b"\x02", "an enum has no such symbol"),
        ("int", b"\x02\x02", "bytes are left after the last field"),
        ({"type": "array", "items": "int"}, b"\x7e", "a value leads out of the record"),
        ({"type": "array", "items": "int"}, b"\x01", "a number does not end"),
        ({"type": "array", "items": "int"}, b"\xff" * 9 + b"\x01\x00\x02", "a value leads out of the record"),
        ({"type": "long", "logicalType": "timestamp-millis"}, b"\xfe" + b"\xff" * 8 + b"\x01", "a time is beyond"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x04\x10\x00", "precision"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2}, b"\x22" + b"\x01" * 17, "more digits"),
    ],
)
def test_the_reason_says_what_is_wrong(schema: Any, payload: bytes, reason: str) -> None:
    decoded = decode(schema, [payload])
    assert reason in decoded.errors[0]
    assert decoded.column.to_pylist() == [None]


@given(st.integers(-(10**38) + 1, 10**38 - 1), st.integers(0, 5))
def test_decimals_of_any_length_keep_their_value(number: int, extra_bytes: int) -> None:
    schema = {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0}
    size = (number.bit_length() + 8) // 8 + extra_bytes
    decoded = decode(schema, [bytes([2 * size]) + number.to_bytes(size, "big", signed=True)])
    assert (decoded.column.to_pylist(), decoded.errors) == ([number], {})


def test_blocks_may_carry_their_size() -> None:
    assert decode({"type": "array", "items": "int"}, [b"\x03\x04\x02\x04\x02\x06\x00"]).column.to_pylist() == [
        [1, 2, 3]
    ]


def test_numbers_that_are_none_and_infinite_pass() -> None:
    schema = {"type": "array", "items": "float"}
    (shown,) = decode(schema, [samples.written(schema, [math.nan, math.inf, -0.0])]).column.to_pylist()
    assert math.isnan(shown[0])
    assert shown[1] == math.inf
    assert math.copysign(1, shown[2]) == -1


def test_the_loops_are_compiled_once_for_all_kinds_of_input() -> None:
    decode(ORDER, [])
    decode(ORDER, [None, b"\x02\x00"])
    decoder_of(ORDER).decode(surrounded([b"\x02\x00"], 0))
    decode("string", [b"\x02\xff", b"\x02a"])
    loops: Any = kernels.decode_records
    assert len(loops.signatures) == 1


def test_where_little_room_may_be_reserved_records_are_decoded_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    schema = {
        "type": "record",
        "name": "Order",
        "fields": [{"name": "tags", "type": {"type": "array", "items": "string"}}, {"name": "n", "type": "long"}],
    }
    payloads: list[bytes | None] = [
        samples.written(schema, {"tags": [str(number)] * (number % 5), "n": number}) for number in range(100)
    ]
    payloads[30], payloads[77] = b"\xff", None
    whole = decode(schema, payloads)
    reserved: list[int] = []
    write = avro_columns._write

    def measured(root: Node, some: Payloads, room: avro_columns._Room) -> Any:
        reserved.append(room.bytes_reserved)
        return write(root, some, room)

    monkeypatch.setattr(avro_columns, "MOST_ROOM_BYTES", 2000)
    monkeypatch.setattr(avro_columns, "_write", measured)
    parts = decode(schema, payloads)
    assert parts.column.equals(whole.column)
    assert parts.errors == whole.errors
    assert list(parts.errors) == [30]
    assert max(reserved) <= 2000


def test_an_empty_batch_gives_an_empty_column() -> None:
    assert len(decode(ORDER, []).column) == 0
    assert decode(ORDER, [None, None]).column.to_pylist() == [None, None]


@pytest.mark.parametrize(
    ("schema", "expected"),
    [
        (["int", "long"], spark.LongType()),
        (["null", "double", "float"], spark.DoubleType()),
        (["int"], spark.IntegerType()),
        ({"type": "string", "logicalType": "uuid"}, spark.StringType()),
        ({"type": "int", "logicalType": "time-millis"}, spark.IntegerType()),
        ({"type": "long", "logicalType": "time-micros"}, spark.LongType()),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, spark.TimestampNTZType()),
        ({"type": "fixed", "name": "F", "size": 16, "logicalType": "uuid"}, spark.BinaryType()),
        ({"type": "bytes", "logicalType": "decimal"}, spark.BinaryType()),
    ],
)
def test_types_are_those_of_from_avro(schema: Any, expected: spark.DataType) -> None:
    assert decoder_of(schema).data_type == expected


def test_a_union_of_numbers_is_the_wider_one() -> None:
    assert decode(["int", "null", "long"], [b"\x00\x02", b"\x02", b"\x04\x04"]).column.to_pylist() == [1, None, 2]


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "record", "name": "N", "fields": [{"name": "next", "type": ["null", "N"]}]}, "contains itself"),
        ({"type": "record", "name": "N", "fields": []}, "no fields"),
        ({"type": "array", "items": "null"}, "take no bytes"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, "38 at most"),
        ({"type": "Unheard"}, "not valid"),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, "not valid"),
        ({"type": "fixed", "name": "F", "size": 1, "logicalType": "decimal", "precision": 3}, "not valid"),
    ],
)
def test_schemas_without_a_column_type_are_refused(schema: Any, reason: str) -> None:
    with pytest.raises(SettingsError, match=reason):
        arrow_type(decoder_of(schema).data_type)
