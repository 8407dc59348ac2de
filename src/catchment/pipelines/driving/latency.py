"""How long events took to be stored, over the last minute: quantiles of all rows, by points of each batch's distribution.

What happened before the run started is no latency but a catch-up, and is left out.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Final, NamedTuple

_KEPT: Final = timedelta(seconds=60)
_KEPT_BATCHES: Final = 1000


class _Point(NamedTuple):
    latency_ms: float
    rows: float


class Latency:
    """That of one sink."""

    def __init__(self, since: datetime | None = None) -> None:
        self._since_ms = since.timestamp() * 1000 if since is not None else float("-inf")
        self._batches: deque[tuple[datetime, tuple[_Point, ...]]] = deque(maxlen=_KEPT_BATCHES)
        self.is_catching_up = False
        """Whether most rows of the last batch are of before the run."""

    def add(self, stored: datetime, rows: int, points_ms: Sequence[float]) -> None:
        """A batch whose rows were stored at a moment; each point stands for as many of them as any other."""
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
