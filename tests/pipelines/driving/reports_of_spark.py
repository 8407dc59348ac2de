"""Reports of batches in the form that Spark gives them, and a query that makes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

START: Final = datetime(2026, 1, 1, tzinfo=UTC)


def moment(seconds: float) -> str:
    """A moment so many seconds after the start, as Spark writes it."""
    return (START + timedelta(seconds=seconds)).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def source(topic: str, *, rows: int, end: int, latest: int) -> dict[str, Any]:
    """One input of a batch, with a table noted beside it."""
    return {
        "description": "catchment",
        "numInputRows": rows,
        "endOffset": {topic: {"0": end}, "noted:crews": {"0": 7}},
        "latestOffset": {topic: {"0": latest}},
    }


def batch(number: int, *sources: dict[str, Any], at_s: float = 0.0, **more: Any) -> dict[str, Any]:
    """A batch of one second, of which the last tenth went by after its rows were stored."""
    rows = sum(one["numInputRows"] for one in sources)
    return {
        "timestamp": moment(at_s),
        "batchId": number,
        "numInputRows": rows,
        "inputRowsPerSecond": float(rows),
        "durationMs": {"triggerExecution": 1000, "addBatch": 800, "commitOffsets": 60, "commitBatch": 40},
        "eventTime": {},
        "stateOperators": [],
        "sources": list(sources),
        "observedMetrics": {},
    } | more


class FakeQuery:
    """A streaming query that has made these reports, and may have failed since."""

    def __init__(self, *progress: dict[str, Any], error: BaseException | None = None, is_active: bool = True) -> None:
        self.recentProgress = list(progress)
        self.isActive = is_active and error is None
        self._error = error

    @property
    def lastProgress(self) -> dict[str, Any] | None:  # noqa: N802 - the name is Spark's
        return self.recentProgress[-1] if self.recentProgress else None

    def exception(self) -> BaseException | None:
        return self._error
