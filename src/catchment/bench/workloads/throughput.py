"""Produce a volume and read it back: throughput both ways, the processor time of the server, and its memory meanwhile."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from catchment.bench.client.load import Load
from catchment.bench.client.run import run_load
from catchment.bench.measure import Measure
from catchment.bench.peers.process import PeakMemory
from catchment.bench.target import Target
from catchment.bench.workloads.workload import fresh_topic

PRODUCE_BARS = {100: 1.0, 1_000: 1.8}
CONSUME_BARS = {100: 1.0, 1_000: 1.2}
CPU_BAR = 0.4
LOADED_MEMORY_BAR = 0.15


@dataclass(frozen=True, slots=True)
class Throughput:
    """One form of traffic. The plain form (acks=all, one partition, no codec) has the bars."""

    record_bytes: int
    records: int
    acks: str = "all"
    partitions: int = 1
    codec: str = "none"
    reads_back: bool = True
    watches_costs: bool = False

    @property
    def name(self) -> str:
        return f"throughput-{self._shape.replace(', ', '-').replace(' ', '').replace('=', '')}"

    @property
    def _shape(self) -> str:
        parts = [size_title(self.record_bytes), f"acks={self.acks}", f"{self.partitions} partition"]
        if self.partitions > 1:
            parts[-1] += "s"
        if self.codec != "none":
            parts.append(self.codec)
        return ", ".join(parts)

    @property
    def is_plain(self) -> bool:
        """Whether this is the form with the bars."""
        return self.acks == "all" and self.partitions == 1 and self.codec == "none"

    @property
    def measures(self) -> Sequence[Measure]:
        def bar(bars: dict[int, float]) -> float | None:
            return bars.get(self.record_bytes) if self.is_plain else None

        found = [Measure(f"produce {self.name}", f"produce {self._shape}", "MB/s", bar=bar(PRODUCE_BARS))]
        if self.reads_back:
            found.append(Measure(f"consume {self.name}", f"consume {self._shape}", "MB/s", bar=bar(CONSUME_BARS)))
        if self.watches_costs:
            found.append(
                Measure(f"cpu {self.name}", f"server CPU, {self._shape}, in and out", "s/GB", False, bar=CPU_BAR)
            )
            found.append(
                Measure(
                    f"memory {self.name}", f"resident under load, {self._shape}", "MB", False, bar=LOADED_MEMORY_BAR
                )
            )
        return found

    def run(self, target: Target) -> dict[str, float]:
        server = target.server
        gigabytes = self.records * self.record_bytes / 1e9
        values: dict[str, float] = {}
        with fresh_topic(target, self.partitions) as topic, PeakMemory(server.process) as memory:
            load = Load(
                kind="produce",
                bootstrap_servers=server.bootstrap_servers,
                topic=topic,
                records=self.records,
                record_bytes=self.record_bytes,
                partitions=self.partitions,
                acks=self.acks,
                codec=self.codec,
            )
            cpu_before_seconds = server.process.cpu_seconds()
            values[f"produce {self.name}"] = run_load(load)["bytes_per_second"] / 1e6
            if self.reads_back:
                values[f"consume {self.name}"] = run_load(replace(load, kind="consume"))["bytes_per_second"] / 1e6
            cpu_seconds = server.process.cpu_seconds() - cpu_before_seconds
        if self.watches_costs:
            values[f"cpu {self.name}"] = cpu_seconds / gigabytes
            values[f"memory {self.name}"] = memory.peak_bytes / 1e6
        return values


def size_title(record_bytes: int) -> str:
    """A size in B or KB."""
    return f"{record_bytes} B" if record_bytes < 1_000 else f"{record_bytes // 1_000} KB"
