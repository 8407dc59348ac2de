"""The interface of Spark workloads."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from catchment.bench.measure import BAR_PEER, Measure, Section
from catchment.bench.spark.side import Side
from catchment.bench.spark.stage import Cost, Stage


class SparkWorkload(Protocol):
    """One kind of load, run on the same topics by each side in turn."""

    @property
    def name(self) -> str:
        """What `--workload` matches."""

    @property
    def section(self) -> Section:
        """The section of its rows."""

    @property
    def measures(self) -> Sequence[Measure]:
        """What a run can return, in the order of the table."""

    @property
    def sides(self) -> Sequence[Side]:
        """Who takes part."""

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        """Run the load once. Measures that do not apply to this side are omitted."""


READ = Section("read", "batch read to the noop sink")
WRITE = Section("write", "batch write")
STREAM = Section("stream", "streams from topic to topic")
CLIENTS = Section("clients", "read_arrow compared with other clients")


def rate_measures(key: str, title: str, bar: float | None, bar_peer: str = BAR_PEER) -> Sequence[Measure]:
    """Rows a second with its bar, and the processor time of a row, which depends less on the load of the machine."""
    return (
        Measure(key, title, "rows/s", bar=bar, bar_peer=bar_peer),
        Measure(f"cpu {key}", f"{title}: CPU", "µs/row", higher_is_better=False),
    )


def rates(key: str, records: int, cost: Cost) -> dict[str, float]:
    """The values of `rate_measures` for this many rows."""
    return {key: records / cost.seconds, f"cpu {key}": cost.cpu_seconds / records * 1e6}
