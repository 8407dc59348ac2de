"""`read_arrow` compared with other Python clients: each reads the same topic in a process of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from catchment.bench.measure import Measure, Section
from catchment.bench.spark.client_process import Reading
from catchment.bench.spark.side import EXACTLY_ONCE, Side
from catchment.bench.spark.stage import Stage, TopicShape
from catchment.bench.spark.workload import CLIENTS
from catchment.bench.workloads.throughput import size_title

OTHER_CLIENTS = ("confluent-kafka", "kafka-python", "aiokafka")
_TIMEOUT_SECONDS = 300


@dataclass(frozen=True, slots=True)
class Clients:
    """All records of a topic from the first call to the last record; keys and values are read, nothing is kept."""

    shape: TopicShape
    section: Section = CLIENTS
    sides: Sequence[Side] = (
        Side("read_arrow", EXACTLY_ONCE.column, "read_arrow"),
        *(Side(name, name, name) for name in OTHER_CLIENTS),
    )

    @property
    def name(self) -> str:
        return f"clients-{size_title(self.shape.record_bytes).replace(' ', '')}"

    @property
    def measures(self) -> Sequence[Measure]:
        return (Measure(self.name, f"read {size_title(self.shape.record_bytes)}", "records/s"),)

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        topic = stage.filled_topic(self.shape)
        reading = Reading(side.format, stage.bootstrap_servers, topic, self.shape.partitions, self.shape.records)
        finished = subprocess.run(
            [sys.executable, "-m", "catchment.bench.spark.client_process", json.dumps(asdict(reading))],
            capture_output=True,
            text=True,
            timeout=_TIMEOUT_SECONDS,
            check=False,
        )
        if finished.returncode != 0:
            raise RuntimeError(f"the client failed: {finished.stderr.strip()[-1000:]}")
        return {self.name: float(finished.stdout)}
