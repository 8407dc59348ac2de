"""How long events took to be stored, over the last minute.

Spark counts the oldest, the mean and the newest event time of each batch at no cost. A batch's events are taken to be at the mean,
but for one in a hundred each at the oldest and at the newest: so p50 is that of the batches' means, and p99 that of their oldest
events.
"""

from __future__ import annotations

from collections import deque
from datetime import datetime
from typing import Final, NamedTuple

_KEPT_S: Final = 60.0
_KEPT_BATCHES: Final = 1000
_EDGE_SHARE: Final = 0.01


class _Point(NamedTuple):
    latency_ms: float
    rows: float


class Latency:
    """That of one outlet."""

    def __init__(self) -> None:
        self._batches: deque[tuple[datetime, tuple[_Point, ...]]] = deque(maxlen=_KEPT_BATCHES)

    def add(self, stored: datetime, oldest: datetime, mean: datetime, newest: datetime, rows: int) -> None:
        """A batch whose rows were stored at a moment."""
        shares = ((oldest, _EDGE_SHARE), (mean, 1 - 2 * _EDGE_SHARE), (newest, _EDGE_SHARE))
        points = tuple(_Point((stored - one).total_seconds() * 1000, share * rows) for one, share in shares)
        self._batches.append((stored, points))
        while (stored - self._batches[0][0]).total_seconds() > _KEPT_S:
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
