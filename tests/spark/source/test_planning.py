"""Spark partitions from offsets, and the share of a batch that each partition gets."""

from __future__ import annotations

import pickle
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.client.topic_metadata import TopicPartition
from catchment.spark.source.admission import Admission, limited
from catchment.spark.source.batch_pace import FIRST_ROWS, LEAST_ROWS, MOST_ROWS, BatchPace
from catchment.spark.source.options import SourceOptions
from catchment.spark.source.planning import OffsetRange, RangePartition, plan

SIZES = st.lists(st.integers(0, 10_000), min_size=1, max_size=8)
A, B, C = ("t", 0), ("t", 1), ("t", 2)
OPTIONS = SourceOptions.read({"kafka.bootstrap.servers": "a:1", "subscribe": "t"}, streaming=True)


def ranges_of(sizes: list[int]) -> list[OffsetRange]:
    return [OffsetRange("t", number, 100, 100 + size) for number, size in enumerate(sizes)]


def planned(partitions: list[RangePartition]) -> list[OffsetRange]:
    return [partition.offsets for partition in partitions]


@given(SIZES)
def test_a_partition_is_one_task_unless_options_ask_for_more(sizes: list[int]) -> None:
    wanted = ranges_of(sizes)
    assert planned(plan(reversed(wanted))) == [one for one in wanted if one.size]


@given(SIZES, st.none() | st.integers(1, 40), st.none() | st.integers(50, 3000))
def test_parts_cover_each_partition_once_and_in_order(sizes: list[int], least: int | None, most: int | None) -> None:
    wanted = ranges_of(sizes)
    parts = planned(plan(wanted, min_partitions=least, max_records=most))
    assert parts == planned(plan(wanted, min_partitions=least, max_records=most))
    for one in wanted:
        own = [part for part in parts if part.partition == one.partition]
        offsets = [offset for part in own for offset in range(part.start, part.end)]
        assert offsets == list(range(one.start, one.end))
    assert all(part.size for part in parts)
    if most is not None:
        assert all(part.size <= most for part in parts)


@pytest.mark.parametrize(
    ("sizes", "least", "counts"),
    [
        ([100], 3, [3]),
        ([1, 1_000_000], 4, [1, 3]),
        ([100, 100, 100], 2, [1, 1, 1]),
        ([10, 30], 4, [1, 3]),
        ([2], 5, [2]),
    ],
)
def test_large_partitions_are_split_first(sizes: list[int], least: int, counts: list[int]) -> None:
    parts = planned(plan(ranges_of(sizes), min_partitions=least))
    assert [sum(part.partition == number for part in parts) for number in range(len(sizes))] == counts


def test_a_range_survives_the_way_to_a_task() -> None:
    (partition,) = plan(ranges_of([5]))
    assert pickle.loads(pickle.dumps(partition)).offsets == partition.offsets


@given(SIZES, st.integers(1, 20_000))
def test_a_limit_is_shared_in_proportion_and_starves_none(sizes: list[int], most: int) -> None:
    start: dict[TopicPartition, int] = {("t", number): 100 for number in range(len(sizes))}
    available = {("t", number): 100 + size for number, size in enumerate(sizes)}
    end = limited(start, available, most)
    total = sum(sizes)
    for place, size in zip(start, sizes, strict=True):
        taken = end[place] - 100
        assert taken <= size
        assert taken > 0 or size == 0
        if total > most:
            assert taken <= max(1, most * size / total)
        else:
            assert taken == size


def test_new_partitions_are_counted_from_their_beginning() -> None:
    assert limited({A: 10}, {A: 20, B: 30}, 4) == {A: 11, B: 3}


def test_a_partition_that_was_cut_back_keeps_its_new_end() -> None:
    assert limited({A: 10, B: 0}, {A: 5, B: 100}, 10) == {A: 5, B: 10}


class ManualClock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


def test_a_batch_waits_for_enough_records_but_not_for_ever() -> None:
    clock = ManualClock()
    admission = Admission(replace(OPTIONS, min_offsets_per_trigger=10, max_trigger_delay_s=60.0), clock)
    assert admission.end({A: 0}, {A: 3}, may_wait=True) == {A: 3}, "the first batch does not wait"
    clock.now_s += 59
    assert admission.end({A: 3}, {A: 12}, may_wait=True) == {A: 3}
    assert admission.end({A: 3}, {A: 13}, may_wait=True) == {A: 13}
    clock.now_s += 59
    assert admission.end({A: 13}, {A: 14}, may_wait=True) == {A: 13}
    assert admission.end({A: 13}, {A: 14}, may_wait=False) == {A: 14}
    clock.now_s += 61
    assert admission.end({A: 14}, {A: 15}, may_wait=True) == {A: 15}


def test_a_limit_and_a_least_number_hold_together() -> None:
    options = replace(OPTIONS, min_offsets_per_trigger=10, max_offsets_per_trigger=20)
    admission = Admission(options, ManualClock())
    assert admission.end({A: 0}, {A: 50}, may_wait=True) == {A: 20}
    assert admission.end({A: 20}, {A: 29}, may_wait=True) == {A: 20}


def test_auto_takes_more_when_batches_are_quick_and_less_when_they_are_slow() -> None:
    clock = ManualClock()
    admission = Admission(replace(OPTIONS, target_batch_s=1.0), clock)
    position, backlog = 0, {A: 10**9}
    counts = []
    for duration_s in (0.1, 0.1, 4.0, 4.0):
        end = admission.end({A: position}, backlog, may_wait=True)
        counts.append(end[A] - position)
        clock.now_s += duration_s
        admission.finished(end)
        position = end[A]
    assert counts == [FIRST_ROWS, 2 * FIRST_ROWS, 4 * FIRST_ROWS, 2 * FIRST_ROWS]


def test_a_batch_that_is_reported_twice_counts_once() -> None:
    clock = ManualClock()
    admission = Admission(replace(OPTIONS, target_batch_s=1.0), clock)
    end = admission.end({A: 0}, {A: 10**9}, may_wait=True)
    clock.now_s += 1
    admission.finished(end)
    clock.now_s += 100
    admission.finished(end)
    assert admission.end(end, {A: 10**9}, may_wait=True)[A] - end[A] == FIRST_ROWS


@pytest.mark.parametrize("rows_per_s", [50.0, 3_000.0, 5_000_000.0])
@pytest.mark.parametrize("overhead_s", [0.0, 0.2])
def test_the_pace_converges_to_the_target(rows_per_s: float, overhead_s: float) -> None:
    pace = BatchPace(2.0)
    for _ in range(40):
        pace.observe(pace.rows, overhead_s + pace.rows / rows_per_s)
    duration_s = overhead_s + pace.rows / rows_per_s
    assert duration_s == pytest.approx(2.0, rel=0.05) or pace.rows == LEAST_ROWS


def test_the_pace_recovers_from_a_stall() -> None:
    pace = BatchPace(1.0)
    for _ in range(20):
        pace.observe(pace.rows, pace.rows / 1e6)
    before = pace.rows
    pace.observe(pace.rows, 600.0)
    assert pace.rows == before // 2
    pace.observe(pace.rows, pace.rows / 1e6)
    assert pace.rows == pytest.approx(before, rel=0.01)


@given(st.lists(st.tuples(st.integers(0, 2**50), st.floats(0, 1e6))))
def test_the_pace_never_leaves_its_bounds(observed: list[tuple[int, float]]) -> None:
    pace = BatchPace(1.0)
    for rows, duration_s in observed:
        pace.observe(rows, duration_s)
        assert LEAST_ROWS <= pace.rows <= MOST_ROWS


def test_a_small_batch_that_was_quick_does_not_raise_the_pace() -> None:
    pace = BatchPace(1.0)
    pace.observe(10, 0.01)
    assert pace.rows == FIRST_ROWS


def test_a_part_of_a_batch_that_was_slow_lowers_it() -> None:
    pace = BatchPace(1.0)
    pace.observe(20_000, 4.0)
    assert pace.rows == 10_000


def test_a_few_rows_that_took_long_say_nothing_about_many() -> None:
    pace = BatchPace(1.0)
    for _ in range(20):
        pace.observe(7, 4.0)
    assert pace.rows == FIRST_ROWS


@pytest.mark.parametrize("rows_per_s", [500.0, 30_000.0, 1e6])
@pytest.mark.parametrize("own_s", [0.6, 1.5, 4.9])
def test_where_a_batch_takes_long_however_few_its_rows_they_get_as_long_again(own_s: float, rows_per_s: float) -> None:
    pace = BatchPace(1.0)
    for _ in range(60):
        pace.observe(pace.rows, own_s + pace.rows / rows_per_s)
    assert pace.rows / rows_per_s == pytest.approx(own_s, rel=0.2) or pace.rows == LEAST_ROWS


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("own_s", [0.0, 0.3, 3.0])
def test_the_pace_keeps_near_its_aim_when_durations_scatter(own_s: float, seed: int) -> None:
    random, pace, rows_per_s = Random(seed), BatchPace(1.0), 50_000.0
    rows, seconds = 0, 0.0
    for number in range(200):
        duration_s = (own_s + pace.rows / rows_per_s) * random.lognormvariate(0, 0.3)
        if number >= 30:
            rows, seconds = rows + pace.rows, seconds + duration_s
        pace.observe(pace.rows, duration_s)
    assert seconds / 170 < 3 * max(1.0, 2 * own_s)
    assert rows / seconds > rows_per_s / 6
