"""Small batches to many partitions at once, as a copy between topics writes them: the cost of a batch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catchment.bench.client.load import Load
from catchment.bench.client.run import run_load
from catchment.bench.measure import Measure
from catchment.bench.target import Target
from catchment.bench.workloads.workload import fresh_topic

_RECORDS_A_BATCH = 10
_RECORD_BYTES = 100
_PARTITIONS = 24
CPU_BAR = 1.0


@dataclass(frozen=True, slots=True)
class SmallBatches:
    """Ten records a batch, to each partition in turn; acks=all."""

    records: int
    time_bar: float
    name: str = "small-batches"

    @property
    def measures(self) -> Sequence[Measure]:
        title = f"{self.records:,} records in batches of {_RECORDS_A_BATCH} to {_PARTITIONS} partitions"
        return (
            Measure("small batches", title, "s", False, bar=self.time_bar),
            Measure("small batches cpu", "the same, the server's processor time", "s", False, bar=CPU_BAR),
        )

    def run(self, target: Target) -> dict[str, float]:
        server = target.server
        with fresh_topic(target, _PARTITIONS) as topic:
            load = Load(
                "small_batches", server.bootstrap_servers, topic, self.records, _RECORD_BYTES, partitions=_PARTITIONS
            )
            cpu_before_seconds = server.process.cpu_seconds()
            seconds = self.records / run_load(load)["records_per_second"]
            cpu_seconds = server.process.cpu_seconds() - cpu_before_seconds
        return {"small batches": seconds, "small batches cpu": cpu_seconds}
