"""A batch that takes the oldest records first, over all partitions: cut between record times, never within one.

A query that has fallen behind must not read one partition ahead of the others, or the watermark, which follows the latest
event, makes late what the others still hold. And where records of one time belong together, as those of one batch of another
query do, they stay together.

The search asks for the offset of each partition at a time. Every answer carries the time of the next record, so that few requests are
needed. After `MOST_QUESTIONS` the best cut so far is used: it is smaller or larger than the target, but still between times.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import isqrt
from typing import Final, NamedTuple

from catchment.client.topic_metadata import TopicPartition
from catchment.spark.source.positions import Offsets

MOST_QUESTIONS: Final = 20
_NEARLY_FULL: Final = 0.9
_AIM: Final = 0.95
"""In the middle of what is good enough: a guess at the whole would be a little too much half of the time."""


class Standing(NamedTuple):
    """The first record of a partition at or after some time: its offset and time. A partition without one has none."""

    offset: int
    time_ms: int


Ask = Callable[[int], Mapping[TopicPartition, Standing]]


class _Cut(NamedTuple):
    """What is before a time."""

    time_ms: int
    ends: Offsets
    waiting: int
    next_time_ms: int | None
    """The earliest time of a record that is not before it; None if there is none."""


class CutTime(NamedTuple):
    """Where a batch ends, and the time before which all its records are."""

    ends: Offsets
    time_ms: int


def cut_by_time(
    start: Mapping[TopicPartition, int], available: Offsets, most: int, ask: Ask, *, since_ms: int, newest_ms: int
) -> CutTime:
    """The largest batch of whole times that has at most so many records, or the smallest there is.

    No record that is waiting is older than `since_ms`, and none that is available is newer than `newest_ms`. To be called
    when more than `most` are waiting.
    """
    search = _Search(start, available, ask)
    # Behind a batch that was cut there, nothing older is left, and there is no need to ask.
    low = search.nothing_before(since_ms) if since_ms else search.before(since_ms)
    high = _Cut(newest_ms + 1, available, search.count(available), None)
    while search.questions < MOST_QUESTIONS and low.waiting < most * _NEARLY_FULL:
        # Times up to that of the next record make no difference.
        lowest_ms = max(low.time_ms, low.next_time_ms if low.next_time_ms is not None else newest_ms) + 1
        if lowest_ms >= high.time_ms:
            break
        found = search.before(_guess(search.questions, low, high, lowest_ms, most))
        if found.waiting <= most:
            low = found
        else:
            high = found
    chosen = low if low.waiting else high
    return CutTime(chosen.ends, chosen.time_ms)


def _guess(questions: int, low: _Cut, high: _Cut, lowest_ms: int, most: int) -> int:
    """By the rule of three, as if records came evenly, and in turn halfway and near the lowest, in case that they do not."""
    highest_ms = high.time_ms - 1
    if questions == MOST_QUESTIONS - 1 and not low.waiting:
        return lowest_ms
    if questions % 3 == 0:
        return (lowest_ms + highest_ms) // 2
    if questions % 3 == 2:
        return lowest_ms + isqrt(highest_ms - lowest_ms)
    share = (most * _AIM - low.waiting) / (high.waiting - low.waiting)
    return min(highest_ms, lowest_ms + int((highest_ms - lowest_ms) * share))


class _Search:
    def __init__(self, start: Mapping[TopicPartition, int], available: Offsets, ask: Ask) -> None:
        self._start = start
        self._available = available
        self._ask = ask
        self.questions = 0

    def before(self, time_ms: int) -> _Cut:
        """What is waiting before a time. A partition that was cut back keeps its new end, which is before its start."""
        self.questions += 1
        found = self._ask(time_ms)
        ends: Offsets = {}
        times_ms = []
        for place, end in self._available.items():
            standing = found.get(place)
            begin = min(self._start.get(place, 0), end)
            ends[place] = end if standing is None else max(begin, min(end, standing.offset))
            if standing is not None and standing.offset < end:
                times_ms.append(standing.time_ms)
        return _Cut(time_ms, ends, self.count(ends), min(times_ms, default=None))

    def nothing_before(self, time_ms: int) -> _Cut:
        self.questions += 1
        return _Cut(time_ms, {place: self._start.get(place, 0) for place in self._available}, 0, time_ms)

    def count(self, ends: Offsets) -> int:
        return count_waiting(self._start, ends)


def count_waiting(start: Mapping[TopicPartition, int], ends: Mapping[TopicPartition, int]) -> int:
    """How many offsets are between; partitions that `start` does not name are new and begin at 0."""
    return sum(max(0, end - start.get(place, 0)) for place, end in ends.items())
