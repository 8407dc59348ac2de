"""Rows as a test writes them against rows as Spark gives them."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.pipelines.trials.matching import difference, is_same

_ROWS = st.lists(st.fixed_dictionaries({"a": st.integers(0, 3), "b": st.sampled_from(["x", "y", None])}), max_size=8)


@given(_ROWS, st.randoms(use_true_random=False))
def test_the_same_rows_in_any_order_do_not_differ(rows: list[dict[str, Any]], random: Any) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)
    assert difference(rows, shuffled) is None


@given(_ROWS.filter(bool), st.data())
def test_a_row_more_or_less_is_a_difference(rows: list[dict[str, Any]], data: st.DataObject) -> None:
    gone = data.draw(st.integers(0, len(rows) - 1))
    fewer = rows[:gone] + rows[gone + 1 :]
    missing, unexpected = difference(rows, fewer), difference(fewer, rows)
    assert missing is not None
    assert unexpected is not None
    assert "\nexpected" in missing
    assert "\ngot" in unexpected


def test_rows_that_name_few_columns_are_given_those_that_fit() -> None:
    got = [{"a": 1, "b": 1}, {"a": 1, "b": 2}]
    assert difference([{"a": 1}, {"a": 1, "b": 1}], got) is None, (
        "the first must leave the row that only the second takes"
    )
    assert difference([{"a": 1, "b": 1}, {"a": 1, "b": 1}], got) is not None


def test_the_difference_is_a_table() -> None:
    expected = [{"district": "Harbour", "count": 3}, {"district": "Hills", "count": 1}]
    got = [{"district": "Harbour", "count": 2, "crew": 7}, {"district": "Hills", "count": 1, "crew": None}]
    assert difference(expected, got) == (
        "          district  count\nexpected  Harbour   3\ngot       Harbour   2\n1 rows are as expected"
    )


def test_a_column_that_the_rows_do_not_have_is_a_difference() -> None:
    assert difference([{"a": 1, "typo": None}], [{"a": 1}]) is not None


def test_a_reason_is_named_by_a_part_of_it() -> None:
    got = [{"id": "a", "_error": "failed check: kind IN ('fire')"}]
    assert difference([{"_error": "failed check"}], got) is None
    assert difference([{"_error": "late"}], got) is not None


@pytest.mark.parametrize(
    ("expected", "got", "same"),
    [
        ("2026-01-01T00:00:00Z", datetime(2026, 1, 1, tzinfo=UTC), True),
        ("2026-01-01T01:00:00+01:00", datetime(2026, 1, 1, tzinfo=UTC), True),
        ("2026-01-01T00:00:01", datetime(2026, 1, 1, tzinfo=UTC), False),
        (datetime(2026, 1, 1, tzinfo=UTC), "2026-01-01T00:00:00Z", True),
        (date(2026, 1, 1), date(2026, 1, 1), True),
        ("2026-01-02", date(2026, 1, 1), False),
        (None, datetime(2026, 1, 1, tzinfo=UTC), False),
        (0.1 + 0.2, 0.3, True),
        (1, 1.0, True),
        (1, True, False),
        ("1.10", Decimal("1.1"), True),
        (2, Decimal("2.5"), False),
        ("two", Decimal(2), False),
        ("text", b"text", True),
        ([1, {"a": 2}], [1, {"a": 2, "b": 3}], True),
        ([1], [1, 2], False),
        (None, None, True),
        (None, 0, False),
    ],
)
def test_values_are_the_same_however_they_are_written(expected: Any, got: Any, same: bool) -> None:
    assert is_same(expected, got) is same
