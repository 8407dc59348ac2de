"""Admission control: how many of the available offsets a micro-batch takes, by count, by bytes or by the target batch time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from typing import Final

from catchment.client.topic_metadata import TopicPartition
from catchment.spark.source.batch_pace import BatchPace
from catchment.spark.source.options import SourceOptions
from catchment.spark.source.positions import Offsets
from catchment.spark.source.time_admission import count_waiting

Clock = Callable[[], float]
Cut = Callable[[Mapping[TopicPartition, int], Offsets, int], Offsets]
"""An end between a start and what is available, at most so many offsets away if that can be."""

MostRows = Callable[[Mapping[TopicPartition, int], Offsets], int]
"""How many of the offsets between a start and an end a batch may have, by their bytes."""
_SHORTENINGS: Final = 3


class Admission:
    """Chooses the end of each batch. `finished` must be called for every batch: the pace follows from it."""

    def __init__(
        self,
        options: SourceOptions,
        clock_s: Clock = time.monotonic,
        cut: Cut | None = None,
        most_rows: MostRows | None = None,
    ) -> None:
        self._options = options
        self._cut = cut or limited
        self._most_rows = most_rows
        self._clock_s = clock_s
        self._pace = None if options.target_batch_s is None else BatchPace(options.target_batch_s)
        self._begun_at_s = -math.inf
        self._under_way: tuple[Offsets, int] | None = None

    def end(self, start: Mapping[TopicPartition, int], available: Offsets, *, may_wait: bool) -> Offsets:
        """Where the batch that begins at `start` ends; at its start if it is to wait for more."""
        waiting = count_waiting(start, available)
        if may_wait and self._is_too_few(waiting):
            return dict(start)
        most = self._options.max_offsets_per_trigger if self._pace is None else self._pace.rows
        end = self._cut(start, available, most) if most is not None and waiting > most else available
        if waiting and self._most_rows is not None:
            end = self._within_bytes(start, end, available)
        if waiting:
            self._begun_at_s = self._clock_s()
            self._under_way = (end, count_waiting(start, end))
        return end

    def finished(self, end: Offsets) -> None:
        """A batch that ended there has been processed."""
        if self._under_way is None or self._under_way[0] != end:
            return
        if self._pace is not None:
            self._pace.observe(self._under_way[1], self._clock_s() - self._begun_at_s)
        self._under_way = None

    def _within_bytes(self, start: Mapping[TopicPartition, int], end: Offsets, available: Offsets) -> Offsets:
        """Shorten the batch until its estimated size fits: an estimate is more accurate for a shorter range."""
        assert self._most_rows is not None
        for _ in range(_SHORTENINGS):
            rows = self._most_rows(start, end)
            shorter = end if rows >= count_waiting(start, end) else self._cut(start, available, rows)
            if count_waiting(start, shorter) >= count_waiting(start, end):
                return end
            end = shorter
        return end

    def _is_too_few(self, waiting: int) -> bool:
        least = self._options.min_offsets_per_trigger
        if least is None or waiting >= least:
            return False
        return self._clock_s() - self._begun_at_s < self._options.max_trigger_delay_s


def limited(start: Mapping[TopicPartition, int], available: Offsets, most: int) -> Offsets:
    """An end at most so many offsets away in all, in which each partition has its share and none is left out.

    The sums are those of Spark's own source. Partitions that `start` does not name are new and begin at 0.
    """
    sizes = {place: end - start.get(place, 0) for place, end in available.items()}
    total = sum(size for size in sizes.values() if size > 0)
    if total <= most:
        return available
    return {
        place: start.get(place, 0) + min(sizes[place], _share(most, sizes[place], total)) if sizes[place] > 0 else end
        for place, end in available.items()
    }


def _share(most: int, size: int, total: int) -> int:
    # A partition with little to read gets at least one, so that it does not starve beside large ones.
    return max(1, most * size // total)
