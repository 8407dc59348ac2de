"""Small requests: how many a second, one record each, and how long a record takes from end to end."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from catchment.bench.client.load import Load
from catchment.bench.client.run import run_load
from catchment.bench.measure import Measure
from catchment.bench.target import Target
from catchment.bench.workloads.workload import fresh_topic

_RECORD_BYTES = 100
SINGLE_RECORD_BAR = 2.0
P50_BAR = 1.0
P99_BAR = 0.5


@dataclass(frozen=True, slots=True)
class SingleRecords:
    """One record a request: five requests in flight, and one at a time."""

    pipelined_records: int
    sequential_records: int
    name: str = "single-record"

    @property
    def measures(self) -> Sequence[Measure]:
        return (
            Measure("pipelined", "one record a request, 5 in flight", "requests/s", bar=SINGLE_RECORD_BAR),
            Measure("one by one", "one record a request, one at a time", "requests/s"),
        )

    def run(self, target: Target) -> dict[str, float]:
        values = {}
        for key, kind, records in (
            ("pipelined", "pipelined", self.pipelined_records),
            ("one by one", "one_by_one", self.sequential_records),
        ):
            with fresh_topic(target, 1) as topic:
                load = Load(kind, target.server.bootstrap_servers, topic, records, _RECORD_BYTES)
                values[key] = run_load(load)["requests_per_second"]
        return values


@dataclass(frozen=True, slots=True)
class Latency:
    """From the producer's call to the consumer, at a rate that is easy for every server."""

    records: int
    rate: int = 1_000
    name: str = "latency"

    @property
    def measures(self) -> Sequence[Measure]:
        title = f"end to end at {self.rate:,} records/s"
        return (
            Measure("p50", f"{title}, p50", "ms", False, bar=P50_BAR),
            Measure("p95", f"{title}, p95", "ms", False),
            Measure("p99", f"{title}, p99", "ms", False, bar=P99_BAR),
        )

    def run(self, target: Target) -> dict[str, float]:
        with fresh_topic(target, 1) as topic:
            load = Load("latency", target.server.bootstrap_servers, topic, self.records, _RECORD_BYTES, rate=self.rate)
            return {name: seconds * 1e3 for name, seconds in run_load(load).items()}
