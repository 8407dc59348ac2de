"""A check stops a run by the share of its rows, however they are cut into batches."""

from __future__ import annotations

import pytest

from catchment.pipelines.declaration.specification import Check
from catchment.pipelines.driving.restarting_query import CheckShares


def judged(stop_above: float, *batches: tuple[int, int]) -> list[str | None]:
    """What is said after each batch of so many rows, of which so many fail the second check, and all of them the first."""
    shares = CheckShares((Check(expect="a > 0"), Check(expect="b > 0", stop_above=stop_above)))
    return [shares.breach({"rows": rows, "check0": rows, "check1": failed}) for rows, failed in batches]


@pytest.mark.parametrize(
    ("stop_above", "rows", "failed", "stops"),
    [
        (0.01, 1000, 10, False),
        (0.01, 1000, 11, True),
        (0.01, 100_000, 1000, False),
        (0.01, 100_000, 1001, True),
        (0.01, 0, 0, False),
        (0.01, 1, 1, False),
        (0.01, 11, 11, True),
        (0.001, 200, 10, False),
        (0.5, 3, 3, False),
        (0.5, 150, 150, False),
        (0.5, 151, 151, True),
        (0.0, 1000, 0, False),
        (0.0, 1, 1, True),
        (1.0, 5000, 5000, False),
    ],
)
def test_a_check_stops_only_above_its_share_of_enough_rows(
    stop_above: float, rows: int, failed: int, stops: bool
) -> None:
    [said] = judged(stop_above, (rows, failed))
    assert (said is not None) == stops
    assert said is None or f"{failed} of the last {rows} rows fail the check b > 0" in said


def test_small_batches_are_added_up() -> None:
    said = judged(0.01, *[(10, 0)] * 5, *[(1, 1)] * 11)
    assert said[:-1] == [None] * 15
    assert said[-1] is not None
    assert "11 of the last 61 rows" in said[-1]


def test_a_trickle_with_few_that_fail_goes_on_for_ever() -> None:
    assert set(judged(0.01, *[(1, int(number % 200 == 0)) for number in range(20_000)])) == {None}


def test_what_was_right_long_ago_does_not_make_up_for_what_is_wrong_now() -> None:
    *before, last = judged(0.1, *[(1000, 0)] * 50, (1000, 101))
    assert set(before) == {None}
    assert last is not None


def test_a_batch_without_counts_says_nothing() -> None:
    assert CheckShares((Check(expect="a > 0", stop_above=0.0),)).breach(None) is None
