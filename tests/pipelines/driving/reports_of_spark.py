"""Reports of batches in the form that Spark gives them, and a query that makes them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from pyspark.sql.streaming.query import StreamingQuery
from typing_extensions import override

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


class FakeQuery(StreamingQuery):
    """A streaming query that has made these reports, and may have failed since."""

    def __init__(self, *progress: dict[str, Any], error: BaseException | None = None, is_active: bool = True) -> None:
        self.reports = list(progress)
        self.is_active = is_active and error is None
        self.error = error

    @property
    @override
    def isActive(self) -> bool:
        return self.is_active

    @property
    @override
    def recentProgress(self) -> Any:
        return self.reports

    @property
    @override
    def lastProgress(self) -> Any:
        return self.reports[-1] if self.reports else None

    @override
    def exception(self) -> Any:
        return self.error
