"""One query, restarted after a failure that may pass, with its progress read.

A query whose store is away is restarted with growing pauses, while the others go on. An outage that lasts too long, and
work that is lost again and again, end the run.

A check with `stop_above` limits the share of rows that may fail. One row says nothing of a share, and a small batch has few rows. So the
counts of batches are added up until there are enough rows for several to fail; then the sum starts again, as it does with every driver. If
more have failed than that many rows allow, the run stops without waiting for the rest.
"""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyspark.sql import Row
from pyspark.sql.streaming.query import StreamingQuery

from catchment.pipelines.declaration.specification import Check
from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.failures import Failure, FailureKind, classify
from catchment.pipelines.driving.status.model import QueryStatus
from catchment.pipelines.driving.status.progress import Progress, ProgressReader, last_batch
from catchment.pipelines.execution.source_stage import CHECKS_METRIC, STOPPED_BY_CHECK

_logger = logging.getLogger(__name__)


_BROKERS: Final = "the brokers"
_MOST_DOUBLINGS: Final = 10
_STALLED_S: Final = 5.0
"""After this time without an answer, the status shows that the query waits for its store."""
_QUIET_S: Final = 15.0
"""Spark reports an idle query every ten seconds, and any other at the end of each batch."""
_SLOWER: Final = 5.0
_FIRST_BATCH_S: Final = 10.0
"""A batch is overdue if it takes this many times as long as the last one; the first one may take `_FIRST_BATCH_S`."""


@dataclass(frozen=True)
class RetryLimits:
    """How long and how often a query is restarted."""

    away_s: float = 600.0
    """How long the brokers or a store may be away."""
    lost: int = 5
    """How often in a row a query may lose its work without finishing a batch."""
    first_pause_s: float = 0.5
    longest_pause_s: float = 15.0

    def pause_s(self, failures: int) -> float:
        """The pause after this many failures in a row: twice as long each time."""
        return min(self.first_pause_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS), self.longest_pause_s)


class RestartingQuery:
    """One query, from its first start to its end."""

    def __init__(
        self,
        status: QueryStatus,
        start: Callable[[], StreamingQuery],
        *,
        has_finished: Callable[[], bool] = lambda: False,
        stalled_s: Callable[[], float] = lambda: 0.0,
        target: str | None = None,
        trigger_s: float = 0.0,
        checks: Sequence[Check] = (),
        reader: ProgressReader | None = None,
        patience: RetryLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """`has_finished` says whether a query that ended without an error was done: one without an end never is.
        `stalled_s` is how long its call to the store has been under way, `target` the store's name; `trigger_s` is the time
        between the beginnings of two batches, if it takes longer than the first of them."""
        self.status = status
        self._start = start
        self._has_finished = has_finished
        self._stalled_s = stalled_s
        self._target = target
        self._trigger_s = trigger_s
        self._shares = CheckShares(checks)
        self.reader = reader or ProgressReader(status)
        self._patience = patience or RetryLimits()
        self._clock = clock
        self._query: StreamingQuery | None = None
        self._start_at_s = self._heard_s = clock()
        self._failing_since_s: float | None = None
        self._failures = self._losses = 0
        self._seen = ("", -1)

    @property
    def is_done(self) -> bool:
        return self.status.state == "done"

    def check(self) -> Failure | None:
        """Start the query if it is due, read its progress, and classify how it ended; a failure that ends the run, or None."""
        if self.is_done:
            return None
        if self._query is None:
            return self._start_again() if self._clock() >= self._start_at_s else None
        query = self._query
        is_active = query.isActive
        if (stopped := self._read_progress(query)) is not None:
            return stopped
        if is_active:
            self.status.overdue = self._overdue(self._clock() - self._heard_s)
            return self._unanswered(self._stalled_s())
        error = query.exception()
        if error is not None:
            return self._failed(classify(error))
        if self._has_finished():
            self.status.state = "done"
            return None
        return self._failed(Failure(FailureKind.WORK_LOST, "it ended without an error", ExitCode.FAILED))

    def _start_again(self) -> Failure | None:
        self._heard_s = self._clock()
        try:
            self._query = self._start()
        except Exception as error:
            return self._failed(classify(error))
        return None

    def _read_progress(self, query: StreamingQuery) -> Failure | None:
        for progress in self._new_reports(query):
            self._seen = (progress["timestamp"], last_batch(progress))
            self._heard_s = self._clock()
            self.reader.read(progress, self._clock())
            # Spark reports finished batches and idle triggers: a query that fails reports neither.
            self._set_healthy()
            if (breach := self._shares.breach(_observed(progress))) is not None:
                return self._ended(
                    Failure(FailureKind.PERMANENT, f"{STOPPED_BY_CHECK}: {breach}", ExitCode.STOPPED_BY_CHECK)
                )
        return None

    def _new_reports(self, query: StreamingQuery) -> Iterable[Progress]:
        """Reports that were not read yet. Spark is asked for all of them only if several are new."""
        last = query.lastProgress
        if last is None or last["timestamp"] <= self._seen[0]:
            return ()
        if last["batchId"] <= self._seen[1] + 1:
            return (last,)
        return [one for one in query.recentProgress if one["timestamp"] > self._seen[0]]

    def _unanswered(self, stalled_s: float) -> Failure | None:
        """Wait for a store that accepts a call and does not answer, but no longer than for one that is away."""
        if stalled_s > _STALLED_S:
            self.status.waits_for = self._waited_for(FailureKind.STORE_AWAY)
        if stalled_s <= self._patience.away_s:
            return None
        message = (
            f"{self._target or 'the store'} has not answered for {stalled_s:.0f} s. Check that it is up, and run again."
        )
        return self._ended(Failure(FailureKind.STORE_AWAY, message, ExitCode.AWAY))

    def _overdue(self, quiet_s: float) -> str | None:
        """A description of a batch that takes far longer than the last one did; None otherwise."""
        status = self.status
        usual_s = _FIRST_BATCH_S if status.batch_ms is None else status.batch_ms / 1000
        if quiet_s < _QUIET_S + self._trigger_s + _SLOWER * usual_s:
            return None
        batch = "its first batch" if status.batch_id is None else f"batch {status.batch_id + 1}"
        where = f", writing to {self._target}" if self._target else ""
        before = "" if status.batch_ms is None else f"; the last one took {usual_s:.1f} s"
        return f"{batch} has been under way for {quiet_s:.0f} s{where}{before}"

    def _set_healthy(self) -> None:
        self._failing_since_s = None
        self._failures = self._losses = 0
        self.status.state = "running"
        self.status.waits_for = None

    def _failed(self, failure: Failure) -> Failure | None:
        self._query = None
        self.status.overdue = None
        self.status.last_error = failure.message
        if not failure.is_transient:
            return self._ended(failure)
        now_s = self._clock()
        self._failures += 1
        self._failing_since_s = now_s if self._failing_since_s is None else self._failing_since_s
        is_lost = failure.kind is FailureKind.WORK_LOST
        self._losses = self._losses + 1 if is_lost else 0
        if self._losses > self._patience.lost:
            return self._ended(failure)
        if not is_lost and now_s - self._failing_since_s > self._patience.away_s:
            return self._ended(failure)
        pause_s = self._patience.pause_s(self._failures)
        self._start_at_s = now_s + pause_s
        _logger.warning("%s is restarted in %.1f s: %s", self.status.name, pause_s, failure.message)
        self.status.restarts += 1
        self.status.state = "waiting"
        self.status.waits_for = self._waited_for(failure.kind)
        return None

    def _waited_for(self, kind: FailureKind) -> str | None:
        if kind is FailureKind.STORE_AWAY:
            return self._target or "a store"
        return _BROKERS if kind is FailureKind.BROKERS_AWAY else None

    def _ended(self, failure: Failure) -> Failure:
        self.status.state = "failed"
        self.status.last_error = failure.message
        return failure._replace(message=f"{self.status.name}: {failure.message}")


def _observed(progress: Progress) -> Any:
    """Spark's observed metrics of a batch. An idle report may repeat those of the batch before it."""
    if not progress.get("numInputRows"):
        return None
    observed: Any = (progress.get("observedMetrics") or {}).get(CHECKS_METRIC)
    return observed.asDict() if isinstance(observed, Row) else observed


_LEAST_ROWS: Final = 300
_ALLOWED_ROWS: Final = 10
"""A small share is checked over as many rows as allow this many to fail."""


class CheckShares:
    """The checks of one source stage, and the counts since its sums began."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = checks
        self._rows = [0] * len(checks)
        self._failed = [0] * len(checks)

    def breach(self, observed: Mapping[str, Any] | None) -> str | None:
        """Add a batch; a message if more rows fail a check than `stop_above` allows, None otherwise.

        `observed` has Spark's counts of the batch for the source stage: `rows`, and `check0`, `check1`, …
        """
        if not observed:
            return None
        for number, check in enumerate(self._checks):
            if check.stop_above is None:
                continue
            self._rows[number] += int(observed["rows"])
            self._failed[number] += int(observed[f"check{number}"])
            rows, failed = self._rows[number], self._failed[number]
            enough = _enough_rows(check.stop_above)
            if failed > check.stop_above * max(rows, enough):
                return (
                    f"{failed} of the last {rows} rows fail the check {check.expect}: that is {failed / rows:.2%},"
                    f" more than the {check.stop_above:.2%} that stop_above allows"
                )
            if rows >= enough:
                self._rows[number] = self._failed[number] = 0
        return None


def _enough_rows(share: float) -> int:
    """Over how many rows a share is checked; where none may fail, none are needed."""
    return max(_LEAST_ROWS, math.ceil(_ALLOWED_ROWS / share)) if share else 0
