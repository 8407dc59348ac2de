"""Batches that are cut by time: no group of one time is split or skipped, and the oldest come first in every partition."""

from __future__ import annotations

import itertools
from bisect import bisect_left
from collections.abc import Mapping

import pytest
from hypothesis import given
from hypothesis import strategies as st

from catchment.client.topic_metadata import TopicPartition
from catchment.spark.source.positions import Offsets
from catchment.spark.source.time_admission import MOST_QUESTIONS, Standing, cut_by_time

TIMES = st.lists(st.integers(0, 60), max_size=30).map(sorted)
PARTITIONS = st.lists(TIMES, min_size=1, max_size=4)


class Log:
    """Partitions of records, each with its time, in order. It counts what it is asked."""

    def __init__(self, partitions: list[list[int]], read: int = 0, scale: int = 1) -> None:
        self.times: dict[TopicPartition, list[int]] = {
            ("t", number): [time * scale for time in times] for number, times in enumerate(partitions)
        }
        self.asked = 0

    @property
    def ends(self) -> Offsets:
        return {place: len(times) for place, times in self.times.items()}

    def ask(self, time_ms: int) -> Mapping[TopicPartition, Standing]:
        self.asked += 1
        found = {place: bisect_left(times, time_ms) for place, times in self.times.items()}
        return {
            place: Standing(row, self.times[place][row]) for place, row in found.items() if row < len(self.times[place])
        }

    def between(self, start: Mapping[TopicPartition, int], end: Mapping[TopicPartition, int]) -> list[int]:
        return [time for place, times in self.times.items() for time in times[start.get(place, 0) : end[place]]]


def batches(log: Log, most: int, *, remembers: bool) -> list[list[int]]:
    """The times of the records of each batch, until all is read."""
    position = dict.fromkeys(log.ends, 0)
    since_ms = 0
    newest_ms = max((time for times in log.times.values() for time in times), default=0)
    found = []
    while position != log.ends:
        if len(log.between(position, log.ends)) <= most:
            end = log.ends
        else:
            log.asked = 0
            cut = cut_by_time(position, log.ends, most, log.ask, since_ms=since_ms, newest_ms=newest_ms)
            assert log.asked <= MOST_QUESTIONS
            end = cut.ends
            since_ms = cut.time_ms if remembers else 0
        assert all(end[place] >= position[place] for place in end)
        found.append(log.between(position, end))
        position = end
    return found


@given(PARTITIONS, st.integers(1, 40), st.booleans(), st.sampled_from([1, 1000, 86_400_000]))
def test_groups_stay_whole_and_in_order_and_none_is_ignored(
    partitions: list[list[int]], most: int, remembers: bool, scale: int
) -> None:
    log = Log(partitions, scale=scale)
    cut = batches(log, most, remembers=remembers)
    assert sorted(time for batch in cut for time in batch) == sorted(log.between({}, log.ends))
    assert all(cut), "a batch is never empty"
    for earlier, later in itertools.pairwise(cut):
        assert max(earlier) < min(later)


@given(PARTITIONS, st.integers(1, 40))
def test_a_batch_is_as_large_as_allowed_or_one_group(partitions: list[list[int]], most: int) -> None:
    """Where every time can be asked for, nothing but the limit makes a batch small."""
    log = Log(partitions)
    cut = batches(log, most, remembers=True)
    for batch, following in itertools.pairwise(cut):
        assert len(batch) <= most or len(set(batch)) == 1
        next_group = following.count(min(following))
        assert len(batch) >= 0.9 * most or len(batch) + next_group > most


def test_a_partition_that_lags_is_read_before_the_others_go_on() -> None:
    """The share of each partition would be the same; its records are not of the same time."""
    log = Log([list(range(1000)), list(range(900, 1000)) * 10])
    first = batches(Log([log.times["t", 0], sorted(log.times["t", 1])]), 500, remembers=True)[0]
    assert first == list(range(len(first)))


def test_a_group_that_is_larger_than_the_limit_is_one_batch() -> None:
    log = Log([[5] * 100, [5] * 50 + [6]])
    assert [len(batch) for batch in batches(log, 10, remembers=True)] == [150, 1]


def test_partitions_that_are_new_begin_at_zero_and_those_cut_back_keep_their_end() -> None:
    log = Log([[1, 2, 3], [1, 2, 3]])
    cut = cut_by_time({("t", 0): 2}, log.ends, 2, log.ask, since_ms=0, newest_ms=3)
    assert cut.ends == {("t", 0): 2, ("t", 1): 2}
    cut = cut_by_time({("t", 0): 7, ("t", 1): 0}, log.ends, 1, log.ask, since_ms=0, newest_ms=3)
    assert cut.ends == {("t", 0): 3, ("t", 1): 1}


@pytest.mark.parametrize("gap_ms", [1, 1000, 30 * 86_400_000])
def test_uneven_times_cost_no_more_questions(gap_ms: int) -> None:
    log = Log([[number * 7 + (gap_ms * 50 if number > 500 else 0) for number in range(1000)]])
    cut = batches(log, 100, remembers=True)
    assert max(map(len, cut)) <= 100
    assert len(cut) <= 16
