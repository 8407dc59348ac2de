"""The writer of an alert's query: it decides on each batch's candidates on the driver, and writes those that fire.

    rows.writeStream.foreachBatch(for_each_batch(AlertWriter(rule, connection).handle))

A batch is decided in slices of a bounded size, each written in a transaction of its own. What has fired is known from the log
alone. When a write fails, its outcome may be unknown: the log is reopened and read back, and the slice is decided again.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import pyarrow
from pyspark.sql import functions as F

from catchment.client.errors import ClientError
from catchment.pipelines.alerts.candidates import candidate_rows
from catchment.pipelines.alerts.decisions import Candidate, Decision, Memory
from catchment.pipelines.alerts.log import AlertLog, AlertsTakenOver
from catchment.pipelines.alerts.rule import AlertRule
from catchment.spark.options.connection import Connection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_log: Final = logging.getLogger("catchment.pipelines")
_ORDER: Final = ("event_time_us", "key", "value")
"""That of `Memory.decide`; rows without a time come first."""


@dataclass(slots=True)
class AlertCounts:
    """Outcomes of candidates since the driver started."""

    fired: int = 0
    repeated: int = 0
    cooling: int = 0
    forgotten: int = 0
    without_time: int = 0


class AlertWriter:
    """Fires one alert, exactly once for each key and event time. Batches come one after another."""

    def __init__(self, rule: AlertRule, connection: Connection) -> None:
        self.counts = AlertCounts()
        self._rule = rule
        self._connection = connection
        self._open: tuple[AlertLog, Memory] | None = None
        self._taken_over: AlertsTakenOver | None = None
        self._never_fires: bool | None = None
        """Whether the condition is false whatever the row: known from the first batch on."""

    def handle(self, rows: DataFrame, batch_id: int) -> bool:
        """Decide on a batch of the stage's rows; False if there was nothing to decide, and so none of them was computed."""
        # All rows are computed once: a stage with state must not be cut short, nor be asked a second time.
        found = candidate_rows(rows, self._rule)
        if self._never_fires is None:
            self._never_fires = _is_empty(found)
        if self._never_fires:
            return False
        found.persist()
        try:
            for one in self._slices(found):
                self.fire(self._timed(one, batch_id))
        finally:
            found.unpersist()
        return True

    def fire(self, candidates: list[Candidate]) -> Decision:
        """Write those candidates that are due; the second attempt is made with what the log says by then."""
        if self._taken_over is not None:
            raise self._taken_over
        try:
            decision = self._attempt(candidates)
        except AlertsTakenOver as error:
            self._taken_over = error
            raise
        except ClientError as error:
            _log.warning("alert %s of pipeline %s is tried again: %s", self._rule.name, self._rule.pipeline, error)
            decision = self._attempt(candidates)
        self.counts.fired += len(decision.fired)
        self.counts.repeated += decision.repeated
        self.counts.cooling += decision.cooling
        self.counts.forgotten += decision.forgotten
        return decision

    def close(self) -> None:
        """Give the connections back; the next batch would open them again."""
        if self._open is not None:
            self._open[0].close()
            self._open = None

    def _attempt(self, candidates: list[Candidate]) -> Decision:
        try:
            log, memory = self._open or self._reopen()
            decision = memory.decide(candidates)
            log.append(decision.fired)
        except BaseException:
            self.close()
            raise
        return decision

    def _reopen(self) -> tuple[AlertLog, Memory]:
        log = AlertLog(self._connection, self._rule)
        try:
            self._open = (log, log.read_back())
        except BaseException:
            log.close()
            raise
        return self._open

    def _slices(self, found: DataFrame) -> Iterator[pyarrow.Table]:
        """A batch's candidates in the order in which they are decided, no more at once than the driver should hold.

        Cut in this order, a batch fires what it would fire if it were decided as a whole.
        """
        limit, left = self._rule.candidates_at_once, found
        while True:
            slice_ = left.orderBy(*_ORDER).limit(limit).select(*Candidate._fields).toArrow()
            if slice_.num_rows:
                yield slice_
            if slice_.num_rows < limit:
                return
            (last,) = slice_.slice(limit - 1).to_pylist()
            reached = [F.lit(last[name]).cast(found.schema[name].dataType).alias(name) for name in _ORDER]
            left = found.where(F.struct(*_ORDER) > F.struct(*reached))

    def _timed(self, found: pyarrow.Table, batch_id: int) -> list[Candidate]:
        """The candidates without those that have no event time, and so no id."""
        candidates = [Candidate(**one) for one in found.to_pylist() if one["event_time_us"] is not None]
        if without_time := found.num_rows - len(candidates):
            self.counts.without_time += without_time
            _log.warning(
                "alert %s of pipeline %s leaves out %d rows of batch %d that have no %s",
                self._rule.name,
                self._rule.pipeline,
                without_time,
                batch_id,
                self._rule.event_time,
            )
        return candidates


def _is_empty(found: DataFrame) -> bool:
    """Whether Spark knows without computing a row that there is none: it would not compute the rows of the stage either."""
    most_rows = found._jdf.queryExecution().optimizedPlan().maxRows()
    return bool(most_rows.isDefined() and most_rows.get() == 0)
