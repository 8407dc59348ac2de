"""Which workloads a run of `bench pipeline` consists of."""

from __future__ import annotations

from typing import Final

from catchment.bench.pipelines.boundary_rows import BoundaryRows
from catchment.bench.pipelines.latencies import alert_latency, store_latency
from catchment.bench.pipelines.realtime_alerts import RealtimeAlertLatency
from catchment.bench.pipelines.throughput import PipelineThroughput
from catchment.bench.spark.workload import SparkWorkload
from catchment.pipelines.execution import session
from catchment.pipelines.execution.session import SOURCE_EVOLUTION

SETTINGS: Final = {name: value for name, value in session.SETTINGS.items() if name != SOURCE_EVOLUTION}
"""The settings of a pipeline, for both sides, without names of sources: Spark requires them for all streams of a session or for none."""
_RECORDS = 2_000_000
_QUICK_DIVISOR = 20


def workloads(*, quick: bool = False) -> list[SparkWorkload]:
    """All of them."""
    return [
        PipelineThroughput(_RECORDS // (_QUICK_DIVISOR if quick else 1)),
        BoundaryRows(_RECORDS // (_QUICK_DIVISOR if quick else 1)),
        store_latency(seconds=10 if quick else 60),
        alert_latency(seconds=10 if quick else 60),
        RealtimeAlertLatency(seconds=5 if quick else 60, warming_s=2 if quick else 10),
    ]


def needs_connector(workload: SparkWorkload) -> bool:
    """Whether it needs the jars of Spark's own Kafka connector, which may be missing."""
    return isinstance(workload, RealtimeAlertLatency)
