"""The expected output follows from the input and the batches; every difference is found and named."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path

import pytest
from tests.spark.soak.plan import BUCKETS, SOURCE
from tests.spark.soak.reconciling import batch_ends, counted_values, mapped_values, misplaced, reconcile

PLACES = {number: (number % 2, number // 2) for number in range(4 * BUCKETS)}


@pytest.fixture
def checkpoint(tmp_path: Path) -> Path:
    """Of three batches: one record, the rest of partition 0, and all of partition 1."""
    (tmp_path / "offsets").mkdir()
    for name, ends in enumerate([{"0": 1, "1": 0}, {"0": 2 * BUCKETS, "1": 0}, {"0": 2 * BUCKETS, "1": 2 * BUCKETS}]):
        text = f'v1\n{{"batchWatermarkMs":0}}\n{json.dumps({SOURCE: ends})}'
        (tmp_path / "offsets" / str(name)).write_text(text)
    return tmp_path


def test_every_batch_counts_on_from_the_one_before(checkpoint: Path) -> None:
    assert [ends[0] for ends in batch_ends(checkpoint)] == [1, 2 * BUCKETS, 2 * BUCKETS]
    values = counted_values(PLACES, checkpoint)
    # Number 0 is alone in the first batch; each batch of the others holds every bucket twice.
    assert sorted(value for value in values if value.startswith("0:")) == ["0:1", "0:2", "0:4"]
    assert sorted(value for value in values if value.startswith("1:")) == ["1:2", "1:4"]
    assert set(values.values()) == {1}


def test_differences_are_found_by_their_names() -> None:
    assert reconcile(Counter("abc"), Counter("abc")) == []
    assert [one.name for one in reconcile(Counter("abc"), Counter("ab"))] == ["lost write"]
    assert [one.name for one in reconcile(Counter("abc"), Counter("abcc"))] == ["duplicate"]
    assert [one.name for one in reconcile(Counter("abc"), Counter("abcd"))] == ["aborted read (G1a)"]


def test_a_partition_that_is_out_of_order_is_found() -> None:
    expected = mapped_values(PLACES)
    assert misplaced(expected, expected) == []
    swapped = {**expected, 1: expected[1][::-1]}
    assert [one.name for one in misplaced(expected, swapped)] == ["non-monotonic send"]
