"""State batches without overlaps: each offset has the same state as in a comparison of all batches."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from catchment.coordination.share_state.batches import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    NO_START,
    StateBatch,
    combine,
    merge,
)

starts = st.integers(NO_START, 25)


@st.composite
def batches(draw: st.DrawFn) -> StateBatch:
    first_offset = draw(st.integers(0, 20))
    return StateBatch(
        first_offset,
        first_offset + draw(st.integers(0, 8)),
        draw(st.sampled_from((AVAILABLE, ACKNOWLEDGED, ARCHIVED))),
        draw(st.integers(1, 3)),
    )


def by_offset(
    given_batches: tuple[StateBatch, ...] | list[StateBatch], start_offset: int
) -> dict[int, tuple[int, int]]:
    """The delivery count and state of each offset: the greatest of all batches."""
    found: dict[int, tuple[int, int]] = {}
    for batch in given_batches:
        for offset in range(max(batch.first_offset, start_offset), batch.last_offset + 1):
            found[offset] = max(found.get(offset, (-1, -1)), (batch.delivery_count, batch.delivery_state))
    return found


def assert_as_few_as_can_be(combined: tuple[StateBatch, ...]) -> None:
    for before, after in itertools.pairwise(combined):
        assert before.last_offset < after.first_offset
        says_the_same = before[2:] == after[2:]
        assert not (says_the_same and before.last_offset + 1 == after.first_offset)


@given(st.lists(batches(), max_size=8), starts)
def test_each_offset_keeps_the_greatest_count_and_state(given_batches: list[StateBatch], start_offset: int) -> None:
    combined = combine(given_batches, start_offset)
    assert by_offset(combined, NO_START) == by_offset(given_batches, start_offset)
    assert_as_few_as_can_be(combined)


@given(st.lists(batches(), max_size=8), st.lists(batches(), max_size=4), starts)
def test_merging_two_lists_equals_combining_all(
    older: list[StateBatch], newer: list[StateBatch], start_offset: int
) -> None:
    combined_older = combine(older, NO_START)
    merged = merge(combined_older, combine(newer, start_offset), start_offset)
    assert merged == combine([*combined_older, *newer], start_offset)


def test_a_batch_in_the_middle_of_another_splits_it() -> None:
    older, newer = StateBatch(0, 9, AVAILABLE, 1), StateBatch(3, 5, ACKNOWLEDGED, 1)
    assert combine([older, newer], NO_START) == (
        StateBatch(0, 2, AVAILABLE, 1),
        StateBatch(3, 5, ACKNOWLEDGED, 1),
        StateBatch(6, 9, AVAILABLE, 1),
    )


def test_a_higher_delivery_count_outweighs_any_state() -> None:
    archived, delivered_again = StateBatch(0, 9, ARCHIVED, 1), StateBatch(0, 9, AVAILABLE, 2)
    assert combine([archived, delivered_again], NO_START) == (delivered_again,)


def test_the_start_offset_truncates_a_batch_and_drops_those_before_it() -> None:
    assert combine([StateBatch(0, 4, AVAILABLE, 1), StateBatch(5, 9, ACKNOWLEDGED, 1)], 7) == (
        StateBatch(7, 9, ACKNOWLEDGED, 1),
    )
