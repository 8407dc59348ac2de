"""Spark's progress reports of a query, turned into its status.

Latency is the time from an event until its row is stored, over the last minute: quantiles of all rows, computed from points of each batch's
distribution. Events from before the run started are a catch-up, and are left out.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

from catchment.pipelines.driving.status.model import QueryStatus
from catchment.pipelines.driving.supervision.run_file import from_text
from catchment.pipelines.execution.rows.event_times import reported_event_times
from catchment.spark.source.noted_offsets import NotedOffsets
from catchment.spark.source.positions import from_json

_IDLE_S: Final = 10.0
"""A topic with nothing new for this long, while another input of the query has something, holds back its watermark."""
_RATE_S: Final = 15.0
"""The rate covers this time. Spark's own rate covers one trigger, however short that was."""
_DUPLICATES: Final = "numDroppedDuplicateRows"
_EPOCH_YEAR: Final = "1970-"
"""The year of Spark's watermark before there is one."""

Progress = Mapping[str, Any]
Place = tuple[str, int]


class ProgressReader:
    """Keeps the status of one query up to date; batches come in their order, each once."""

    def __init__(
        self, status: QueryStatus, origins: Mapping[str, str] | None = None, since: datetime | None = None
    ) -> None:
        """`origins` has, for a topic between stages, the source topic that users know; `since` is when the run started."""
        self.status = status
        self._origins = origins or {}
        self._latency = Latency(since)
        self._read_to: dict[Place, int] = {}
        self._recent: deque[tuple[float, int]] = deque()
        self._first_s: float | None = None
        self._last_data_s: dict[str, float] = {}

    def read(self, progress: Progress, now_s: float) -> None:
        """Apply a report that was made at a time of the monotonic clock."""
        status = self.status
        rows = int(progress.get("numInputRows") or 0)
        status.rows += rows
        self._recent.append((now_s, rows))
        self._set_rate(now_s)
        if (batch_id := last_batch(progress)) >= 0:
            status.batch_id = batch_id
        if rows:
            status.batch_ms = progress["durationMs"].get("triggerExecution")
        self._read_offsets(progress)
        watermark = progress.get("eventTime", {}).get("watermark")
        if watermark and not watermark.startswith(_EPOCH_YEAR):
            status.watermark = watermark
        status.dropped_rows += sum(
            int(one.get("numRowsDroppedByWatermark") or 0) for one in progress.get("stateOperators", ())
        )
        self._note_idle(progress, now_s)
        if status.kind == "outlet" and rows:
            self._note_latency(progress)
        if status.source is not None and rows:
            self._count(progress)

    @property
    def places(self) -> list[Place]:
        """The partitions that the query reads, as far as it has reported."""
        return list(self._read_to)

    def measure(self, ends: Mapping[Place, int], now_s: float) -> None:
        """Set the rate, and the lag by the current log end offsets, which may be later than those of the last report."""
        self._set_rate(now_s)
        known = {place: offset for place, offset in self._read_to.items() if place in ends}
        if known:
            self.status.lag = sum(max(0, ends[place] - offset) for place, offset in known.items())

    def _set_rate(self, now_s: float) -> None:
        self._first_s = now_s if self._first_s is None else self._first_s
        while self._recent and self._recent[0][0] < now_s - _RATE_S:
            self._recent.popleft()
        elapsed_s = min(max(now_s - self._first_s, 1.0), _RATE_S)
        self.status.rows_per_s = round(sum(rows for _, rows in self._recent) / elapsed_s, 1)

    def _read_offsets(self, progress: Progress) -> None:
        """Read the query's end offsets, and its lag at the time of the report."""
        lags = []
        for source in progress.get("sources", ()):
            end, latest = _offsets(source.get("endOffset")), _offsets(source.get("latestOffset"))
            self._read_to |= end or {}
            if end is not None and latest is not None:
                lags.append(sum(max(0, latest[place] - end.get(place, 0)) for place in latest))
        self.status.lag = sum(lags) if lags else None

    def _note_idle(self, progress: Progress, now_s: float) -> None:
        sources = progress.get("sources", ())
        if len(sources) < 2:
            return
        topics = {topic: int(one.get("numInputRows") or 0) for one in sources for topic in _topics(one)}
        for topic, rows in topics.items():
            if rows or topic not in self._last_data_s:
                self._last_data_s[topic] = now_s
        idle = [topic for topic in topics if now_s - self._last_data_s[topic] > _IDLE_S]
        # If no topic has new records, none holds back the others.
        known = sorted({self._origins.get(topic, topic) for topic in idle})
        self.status.held_back_by = known if len(idle) < len(topics) else []

    def _count(self, progress: Progress) -> None:
        """Add the outcomes of a source stage's batch. Spark gives -1 for unknown counts."""
        self.status.rows_out += max(0, int(progress.get("sink", {}).get("numOutputRows", -1)))
        self.status.duplicates += sum(
            int(one.get("customMetrics", {}).get(_DUPLICATES) or 0) for one in progress.get("stateOperators", ())
        )

    def _note_latency(self, progress: Progress) -> None:
        durations = progress["durationMs"]
        after_ms = durations.get("commitOffsets", 0) + durations.get("commitBatch", 0)
        taken_ms = durations.get("triggerExecution", 0) - after_ms
        stored = from_text(progress["timestamp"]) + timedelta(milliseconds=taken_ms)
        for times in reported_event_times(progress.get("observedMetrics") or {}):
            self._latency.add(stored, times.rows, times.points_ms)
        self.status.latency_ms = self._latency.quantiles()
        self.status.is_catching_up = self._latency.is_catching_up


def last_batch(progress: Progress) -> int:
    """The number of the last batch of a report; -1 before the first. An idle report has the number of the next batch."""
    return int(progress["batchId"]) - ("addBatch" not in progress["durationMs"])


def _offsets(offsets: Any) -> dict[Place, int] | None:
    """Offsets by topic and partition; None if the source is of another kind."""
    try:
        tree = json.loads(offsets) if isinstance(offsets, str) else offsets
        return NotedOffsets.of(from_json(tree)).read
    except (AttributeError, TypeError, ValueError):
        return None


def _topics(source: Mapping[str, Any]) -> list[str]:
    return sorted({topic for topic, _ in _offsets(source.get("endOffset")) or {}})


_KEPT: Final = timedelta(seconds=60)
_KEPT_BATCHES: Final = 1000


class _Point(NamedTuple):
    latency_ms: float
    rows: float


class Latency:
    """The latency of one sink."""

    def __init__(self, since: datetime | None = None) -> None:
        self._since_ms = since.timestamp() * 1000 if since is not None else float("-inf")
        self._batches: deque[tuple[datetime, tuple[_Point, ...]]] = deque(maxlen=_KEPT_BATCHES)
        self.is_catching_up = False
        """Whether most rows of the last batch are from before the run."""

    def add(self, stored: datetime, rows: int, points_ms: Sequence[float]) -> None:
        """Add a batch whose rows were stored at that time; each point stands for the same number of rows."""
        stored_ms, share = stored.timestamp() * 1000, rows / len(points_ms)
        points = tuple(_Point(max(0.0, stored_ms - one), share) for one in points_ms if one >= self._since_ms)
        self.is_catching_up = 2 * len(points) < len(points_ms)
        if points:
            self._batches.append((stored, points))
        while self._batches and stored - self._batches[0][0] > _KEPT:
            self._batches.popleft()

    def quantiles(self) -> dict[str, float] | None:
        """p50 and p99 in milliseconds; None before the first batch."""
        points = sorted(point for _, batch in self._batches for point in batch)
        if not points:
            return None
        return {"p50": _quantile(points, 0.5), "p99": _quantile(points, 0.99)}


def _quantile(points: list[_Point], share: float) -> float:
    wanted = share * sum(point.rows for point in points)
    passed = 0.0
    for point in points:
        passed += point.rows
        if passed >= wanted:
            break
    return point.latency_ms
