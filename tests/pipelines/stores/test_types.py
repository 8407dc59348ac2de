"""Values come back from every kind of store as they went in."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from catchment.pipelines.stores.store import Layout
from catchment.pipelines.stores.store_errors import StoreRefused
from catchment.pipelines.stores.store_opening import open_store

CASES: list[tuple[pyarrow.DataType, list[Any]]] = [
    (pyarrow.bool_(), [True, False]),
    (pyarrow.int8(), [-128, 127]),
    (pyarrow.int16(), [-(2**15), 2**15 - 1]),
    (pyarrow.int32(), [-(2**31), 2**31 - 1]),
    (pyarrow.int64(), [-(2**63), 2**63 - 1, 0]),
    (pyarrow.uint32(), [0, 2**32 - 1]),
    (pyarrow.float32(), [1.5, math.inf, math.nan, 1.1754943508222875e-38]),
    (pyarrow.float64(), [0.1, 1e308, 5e-324, -math.inf, math.nan]),
    (pyarrow.decimal128(10, 2), [Decimal("-12345678.90"), Decimal("0.00")]),
    (pyarrow.decimal128(38, 18), [Decimal("0.000000000000000001"), Decimal("12345678901234567890.123456789012345678")]),
    (pyarrow.string(), ["", "Größe 🚒", '"quoted", and\n\\.\nnext', "NULL", "\\N", "\r\n", " x ", "a%b%%s ?", "NaN"]),
    (pyarrow.large_string(), ["long", ""]),
    (pyarrow.binary(), [b"", b"\x00\xff\\x", b"text"]),
    (pyarrow.binary(2), [b"ab"]),
    (pyarrow.date32(), [date(1, 1, 1), date(2026, 2, 28), date(9999, 12, 31)]),
    (
        pyarrow.timestamp("us"),
        [datetime.fromisoformat(text) for text in ("2026-01-02T03:04:05.678901", "0001-01-01", "1969-12-31")],
    ),
    (
        pyarrow.timestamp("us", tz="UTC"),
        [datetime(2026, 1, 2, 3, 4, 5, 600000, UTC), datetime(9999, 12, 31, 23, 59, 59, 999999, UTC)],
    ),
    (pyarrow.timestamp("ms", tz="Europe/Berlin"), [datetime(2026, 7, 1, tzinfo=timezone(timedelta(hours=2)))]),
    (pyarrow.list_(pyarrow.int32()), [[], [1, None, 3]]),
    (
        pyarrow.struct([("a", pyarrow.string()), ("b", pyarrow.decimal128(9, 8)), ("c", pyarrow.date32())]),
        [{"a": 'x"\n', "b": Decimal("0.00000001"), "c": date(2026, 1, 1)}, {"a": None, "b": None, "c": None}],
    ),
    (pyarrow.map_(pyarrow.string(), pyarrow.float64()), [[("x", math.inf), ("y", None)], []]),
    (pyarrow.map_(pyarrow.int32(), pyarrow.binary()), [[(1, b"\x00\xff"), (2, b"")]]),
    (
        pyarrow.list_(pyarrow.struct([("at", pyarrow.timestamp("us", tz="UTC"))])),
        [[{"at": datetime(2026, 1, 1, tzinfo=UTC)}, None]],
    ),
]


def round_trip(address: str, kind: pyarrow.DataType, values: list[Any], table: str = "types") -> list[Any]:
    """Write values and a NULL, and read them back in their order."""
    schema = pyarrow.schema([("number", pyarrow.int64()), ("value", kind)])
    with open_store(address, table) as store:
        store.prepare(schema, Layout(table, ("number",)))
        numbers = list(range(len(values) + 1))
        batch = pyarrow.table({"number": numbers, "value": pyarrow.array([*values, None], kind)}, schema=schema)
        last = store.last_batch("query")
        store.write(batch, "query", 0 if last is None else last + 1, 1)
        result: list[Any] = store.read().sort_by("number").column("value").to_pylist()
    return result


@pytest.mark.parametrize(("kind", "values"), CASES, ids=[str(kind) for kind, _ in CASES])
def test_values_come_back_as_they_were(address: str, kind: pyarrow.DataType, values: list[Any]) -> None:
    # NaN is not equal to itself, but looks like itself.
    assert repr(_instants(round_trip(address, kind, values))) == repr(_instants([*values, None]))


def _instants(values: list[Any]) -> list[Any]:
    return [
        value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else _instants_within(value)
        for value in values
    ]


def _instants_within(value: Any) -> Any:
    if isinstance(value, list):
        return [_instants_within(item) for item in value]
    if isinstance(value, dict):
        return {name: _instants_within(item) for name, item in value.items()}
    return value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), max_size=20))
def test_any_text_comes_back_as_it_was(address: str, values: list[str]) -> None:
    assert round_trip(address, pyarrow.string(), values)[: len(values)] == values


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.datetimes(timezones=st.just(UTC)), max_size=20))
def test_any_moment_comes_back_as_it_was(address: str, values: list[datetime]) -> None:
    assert round_trip(address, pyarrow.timestamp("us", tz="UTC"), values)[: len(values)] == values


@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(values=st.lists(st.floats(width=64, allow_nan=False), max_size=20))
def test_any_number_comes_back_as_it_was(address: str, values: list[float]) -> None:
    assert round_trip(address, pyarrow.float64(), values)[: len(values)] == values


@pytest.mark.parametrize("kind", ["sqlite", "redis"])
def test_text_with_nul_comes_back_where_the_store_can_hold_it(kind: str, request: pytest.FixtureRequest) -> None:
    address: str = request.getfixturevalue(f"{kind}_address")
    assert round_trip(address, pyarrow.string(), ["a\0b"]) == ["a\0b", None]


def test_nul_is_replaced_by_another_character_in_postgresql_and_stops_nothing(postgresql_address: str) -> None:
    assert round_trip(postgresql_address, pyarrow.string(), ["a\0b", "\0\0"]) == ["a\ufffdb", "\ufffd\ufffd", None]
    nested = [["a\0\0b", r"\u0000", "\\\0"]]
    found = round_trip(postgresql_address, pyarrow.list_(pyarrow.string()), nested, "nested")
    assert found == [["a\ufffd\ufffdb", r"\u0000", "\\\ufffd"], None]


def test_keys_that_nul_alone_tells_apart_are_one_in_postgresql(postgresql_address: str) -> None:
    schema = pyarrow.schema([("name", pyarrow.string()), ("count", pyarrow.int64())])
    with open_store(postgresql_address, "names") as store:
        store.prepare(schema, Layout("names", ("name",)))
        rows = pyarrow.table({"name": ["a\0", "a\ufffd"], "count": [1, 2]}, schema=schema)
        assert store.write(rows, "query", 0, 1)
        assert store.read().to_pylist() == [{"name": "a\ufffd", "count": 2}]


@pytest.mark.parametrize(
    "kind", [pyarrow.uint64(), pyarrow.duration("s"), pyarrow.null(), pyarrow.list_(pyarrow.time64("us"))], ids=str
)
def test_a_type_without_a_place_is_refused_with_the_columns_name(tmp_path: Path, kind: pyarrow.DataType) -> None:
    with pytest.raises(StoreRefused, match="'value' is"):
        round_trip(f"sqlite:///{tmp_path}/types.db", kind, [])


@pytest.mark.parametrize("count_us", [10**18, -(10**18), -62_135_596_800_000_001, 253_402_300_800_000_000])
def test_a_moment_outside_the_calendar_is_refused_with_the_columns_name(address: str, count_us: int) -> None:
    schema = pyarrow.schema([("at", pyarrow.timestamp("us", tz="UTC"))])
    with open_store(address, "types") as store:
        store.prepare(schema, Layout("types"))
        with pytest.raises(StoreRefused, match="'at' holds a moment outside"):
            store.write(pyarrow.table([pyarrow.array([count_us], schema.field(0).type)], schema=schema), "query", 0, 1)


def test_bytes_that_are_no_text_are_refused_with_the_columns_name(address: str) -> None:
    schema = pyarrow.schema([("value", pyarrow.string())])
    broken = pyarrow.Array.from_buffers(
        pyarrow.string(),
        1,
        [None, pyarrow.py_buffer(b"\x00\x00\x00\x00\x02\x00\x00\x00"), pyarrow.py_buffer(b"\xff\xfe")],
    )
    with open_store(address, "types") as store:
        store.prepare(schema, Layout("types"))
        with pytest.raises(StoreRefused, match="'value'"):
            store.write(pyarrow.table([broken], schema=schema), "query", 0, 1)


def test_keys_of_every_type_find_their_rows_again(address: str) -> None:
    kinds = [kind for kind, _ in CASES if not pyarrow.types.is_nested(kind) and not pyarrow.types.is_floating(kind)]
    values = [cases[0] for kind, cases in CASES if kind in kinds]
    names = [f"key {position}: %s ?" for position in range(len(kinds))]
    schema = pyarrow.schema([*zip(names, kinds, strict=True), ("count", pyarrow.int64())])
    with open_store(address, "types") as store:
        store.prepare(schema, Layout("types", tuple(names)))
        row = dict(zip(names, values, strict=True))
        for batch_id in range(3):
            store.write(pyarrow.Table.from_pylist([{**row, "count": batch_id}], schema=schema), "query", batch_id, 1)
        assert store.read().column("count").to_pylist() == [2]
        gone = pyarrow.Table.from_pylist([row], schema=schema).append_column("__deleted", pyarrow.array([True]))
        store.write(gone, "query", 3, 1)
        assert store.read().num_rows == 0
