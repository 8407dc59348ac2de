"""Statistics never hide a row: bounds hold for all values, and inexact bounds are left out."""

from __future__ import annotations

import decimal
import io
import json
from typing import Any

import pyarrow
from hypothesis import given
from hypothesis import strategies as st
from pyarrow import parquet
from tests.pipelines.lakes.lake_world import all_types

from catchment.pipelines.lakes.statistics import statistics_of


def _statistics(rows: pyarrow.Table, row_group_size: int = 1000) -> dict[str, Any]:
    file = io.BytesIO()
    parquet.write_table(rows, file, row_group_size=row_group_size)
    counted: dict[str, Any] = json.loads(
        statistics_of(parquet.read_metadata(file), rows.schema), parse_float=decimal.Decimal
    )
    return counted


def _bounds(counted: dict[str, Any], column: str) -> tuple[Any, Any]:
    return counted["minValues"].get(column), counted["maxValues"].get(column)


@given(
    st.lists(
        st.tuples(
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.none() | st.text(max_size=200),
            st.none() | st.decimals(-(10**17), 10**17, places=3),
        ),
        min_size=1,
        max_size=40,
    ),
    st.integers(1, 12),
)
def test_bounds_hold_for_every_value_in_every_row_group(rows: list[tuple[Any, Any, Any]], row_group_size: int) -> None:
    numbers, texts, prices = (list(column) for column in zip(*rows, strict=True))
    kinds = (pyarrow.int64(), pyarrow.string(), pyarrow.decimal128(38, 3))
    columns = {"number": numbers, "text": texts, "price": prices}
    arrays = [pyarrow.array(column, kind) for column, kind in zip(columns.values(), kinds, strict=True)]

    counted = _statistics(pyarrow.table(arrays, list(columns)), row_group_size)

    assert counted["numRecords"] == len(rows)
    for name, values in columns.items():
        assert counted["nullCount"][name] == values.count(None)
        least, greatest = _bounds(counted, name)
        present = [_ordered(value) for value in values if value is not None]
        assert least is None or all(_ordered(least) <= value for value in present)
        assert greatest is None or all(value <= _ordered(greatest) for value in present)
    assert (counted["minValues"].get("number") is None) == all(number is None for number in numbers)


def _ordered(value: Any) -> Any:
    """Texts are in the order of their bytes, as Delta has them."""
    return value.encode() if isinstance(value, str) else value


def test_times_are_given_to_the_microsecond() -> None:
    counted = _statistics(all_types())

    assert _bounds(counted, "at") == ("2026-03-01T12:00:00.123456Z",) * 2
    assert _bounds(counted, "local") == ("2026-03-01T12:00:00.123456",) * 2
    assert _bounds(counted, "day") == ("1582-10-15", "9999-12-31")
    assert _bounds(counted, "struct")[0] == {"code": 7, "at": "2026-03-01T12:00:00.123456Z"}


def test_no_bounds_where_readers_might_order_otherwise_or_digits_would_be_lost() -> None:
    counted = _statistics(all_types())

    for column in ("flag", "single", "double", "exact", "bytes", "list", "map", "deep"):
        assert _bounds(counted, column) == (None, None)
    assert _bounds(counted, "price") == (decimal.Decimal("-1.50"), decimal.Decimal("99.99"))
    assert counted["nullCount"]["double"] == counted["nullCount"]["bytes"] == 1
    assert "list" not in counted["nullCount"]


def test_years_that_python_does_not_have_leave_the_bound_out() -> None:
    far = pyarrow.array([0, 400_000_000_000_000_000], pyarrow.int64()).cast(pyarrow.timestamp("us", "UTC"))

    counted = _statistics(pyarrow.table({"at": far, "number": [1, 2]}))

    assert counted["minValues"] in ({"number": 1}, {"number": 1, "at": "1970-01-01T00:00:00.000000Z"})
    assert counted["maxValues"] == {"number": 2}


def test_long_texts_and_columns_beyond_the_32nd_do_not_swell_the_log() -> None:
    rows = pyarrow.table({"text": ["x" * 129], **{f"column_{number}": [number] for number in range(40)}})

    counted = _statistics(rows)

    assert _bounds(counted, "text") == (None, None)
    assert set(counted["minValues"]) == {f"column_{number}" for number in range(31)}


def test_a_dot_in_a_name_is_no_field_of_a_struct() -> None:
    rows = pyarrow.table(
        {
            "a.b": pyarrow.array([1, 2]),
            "list": pyarrow.array([[{"x": 9, "y": 9}], []]),
            "map": pyarrow.array([[("k", 9)], []], pyarrow.map_(pyarrow.string(), pyarrow.int64())),
            "a": pyarrow.array([{"b": 3, "c.d": 5}, {"b": 4, "c.d": 6}]),
            "last": pyarrow.array([7, 8]),
        }
    )

    counted = _statistics(rows)

    assert counted["minValues"] == {"a.b": 1, "a": {"b": 3, "c.d": 5}, "last": 7}
    assert counted["maxValues"] == {"a.b": 2, "a": {"b": 4, "c.d": 6}, "last": 8}
