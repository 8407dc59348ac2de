"""Rows of a table are there from their own batch until another of their key comes."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from catchment.pipelines.trials.streams import row_ends

_KEYS = st.lists(st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=4), max_size=6)


@given(_KEYS)
def test_each_batch_sees_the_last_row_of_each_key(keys: list[list[bytes]]) -> None:
    ends = row_ends(keys)
    for batch_id in range(len(keys)):
        seen = [
            (number, place)
            for number, rows in enumerate(keys)
            for place in range(len(rows))
            if number <= batch_id < ends[number][place]
        ]
        last: dict[bytes, tuple[int, int]] = {}
        for number, rows in enumerate(keys[: batch_id + 1]):
            for place, key in enumerate(rows):
                last[key] = (number, place)
        assert sorted(seen) == sorted(last.values())
