"""The progress of the query that writes what this one reads: the time of its last finished batch.

All records that such a query writes in one batch have the time of the batch, which rises with the batch's id (`batch_times`). A batch
that is not done may be visible in some partitions and not in others; a query that reads no further than the last one that is done gets
every batch as a whole. The list in which a batch was decided says which time its records have. Queries without such lists, and those of
an older version, have written the time that Spark planned the batch at, which is right as long as no clock is set back.
"""

from __future__ import annotations

from typing import NamedTuple

from catchment.spark.sink.batch_times import BatchTimes
from catchment.spark.sink.ledger import Ledger


class FinishedBatch(NamedTuple):
    batch_id: int
    time_ms: int
    """No record of it, or of a batch before it, is newer, and all records of later batches are."""


class Upstream:
    """One query, seen through its checkpoint."""

    def __init__(self, checkpoint: str) -> None:
        self._ledger = Ledger.at(checkpoint)
        self._last: FinishedBatch | None = None

    def finished(self) -> FinishedBatch | None:
        """The last batch that is done; None if there is none. A clock that was set back does not lower its time."""
        batch_id = self._ledger.checkpoint.newest_finished()
        if batch_id is None:
            return None
        if self._last is None or batch_id != self._last.batch_id:
            time_ms = self._time_ms(batch_id)
            self._last = FinishedBatch(batch_id, time_ms if self._last is None else max(time_ms, self._last.time_ms))
        return self._last

    def _time_ms(self, batch_id: int) -> int:
        decided = BatchTimes.known(self._ledger.newest())
        if decided is None:
            return self._ledger.checkpoint.plan(batch_id).time_ms
        # A batch that is decided by now and was not done a moment ago is later than all that were.
        return decided.newest_ms if decided.batch_id <= batch_id else decided.floor_ms - 1
