"""How far the query has come that writes what this one reads: the time of its last batch that is done.

All records that such a query writes in one batch have the time of the batch. A batch that is not done may be visible in some
partitions and not in others; who reads no further than the last one that is done gets every batch as a whole.
"""

from __future__ import annotations

from typing import NamedTuple

from catchment.spark.spark_checkpoint import SparkCheckpoint


class FinishedBatch(NamedTuple):
    batch_id: int
    time_ms: int


class Upstream:
    """One query, seen through its checkpoint."""

    def __init__(self, checkpoint: str) -> None:
        self._checkpoint = SparkCheckpoint.at(checkpoint)
        self._last: FinishedBatch | None = None

    def finished(self) -> FinishedBatch | None:
        """The last batch that is done; None if there is none. A clock that was set back does not lower its time."""
        batch_id = self._checkpoint.newest_finished()
        if batch_id is None:
            return None
        if self._last is None or batch_id != self._last.batch_id:
            time_ms = self._checkpoint.plan(batch_id).time_ms
            self._last = FinishedBatch(batch_id, time_ms if self._last is None else max(time_ms, self._last.time_ms))
        return self._last
