"""Estimate the bytes of a batch before it is read, from a sample of its records: `maxBytesPerTrigger`.

Brokers report offsets, not sizes. So `maxBytesPerTrigger` is a soft limit. It protects a query whose `maxOffsetsPerTrigger` was chosen
for records that are smaller by orders of magnitude.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Final

from catchment.client.topic_metadata import TopicPartition
from catchment.spark.source.positions import Offsets
from catchment.spark.source.time_admission import count_waiting

Look = Callable[[TopicPartition, int], float | None]
"""The mean size of some records of a partition, from an offset on."""

_FEW_ROWS: Final = 16
"""Not worth a look, however large they are."""
_LOOKS: Final = 3
"""At the beginning of a batch, after a third of it, and after two."""
_MOST_PARTITIONS: Final = 8
"""Those that have most in the batch stand for the others."""
_LOOK_EVERY_S: Final = 10.0
_SAFE_SHARE: Final = 8
"""Batches that would be within the limit though their records had grown so much need no new look."""


class BatchBytes:
    """For the process that plans the batches of one query."""

    def __init__(self, most_bytes: int, look: Look, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._most_bytes = most_bytes
        self._look = look
        self._clock_s = clock_s
        self._looked_at_s = float("-inf")
        self._mean_bytes = 0.0

    def most_rows(self, start: Mapping[TopicPartition, int], end: Offsets) -> int:
        """How many of the rows between two positions may be in one batch: all of them, or fewer, but at least one."""
        rows = count_waiting(start, end)
        if rows <= _FEW_ROWS:
            return rows
        is_old = self._clock_s() - self._looked_at_s > _LOOK_EVERY_S
        if is_old or rows * self._mean_bytes * _SAFE_SHARE > self._most_bytes:
            self._look_at(start, end)
        if rows * self._mean_bytes <= self._most_bytes:
            return rows
        return max(1, int(self._most_bytes / self._mean_bytes))

    def _look_at(self, start: Mapping[TopicPartition, int], end: Offsets) -> None:
        """Partitions count by what they have in the batch. Where nothing could be seen, what was seen last goes on."""
        waiting = {place: offset - start.get(place, 0) for place, offset in end.items()}
        weights = bytes_seen = 0.0
        for place in sorted(waiting, key=waiting.__getitem__, reverse=True)[:_MOST_PARTITIONS]:
            for number in range(_LOOKS if waiting[place] > 0 else 0):
                mean_bytes = self._look(place, start.get(place, 0) + waiting[place] * number // _LOOKS)
                if mean_bytes is not None:
                    weights += waiting[place]
                    bytes_seen += mean_bytes * waiting[place]
        if weights:
            self._mean_bytes = bytes_seen / weights
        self._looked_at_s = self._clock_s()
