"""Which workloads a run of `bench pipeline` consists of."""

from __future__ import annotations

from catchment.bench.pipelines.store_latency import StoreLatency
from catchment.bench.pipelines.throughput import PipelineThroughput
from catchment.bench.spark.workload import SparkWorkload

_RECORDS = 2_000_000
_QUICK_DIVISOR = 20


def workloads(*, quick: bool = False) -> list[SparkWorkload]:
    """All of them."""
    return [
        PipelineThroughput(_RECORDS // (_QUICK_DIVISOR if quick else 1)),
        StoreLatency(seconds=10 if quick else 60),
    ]
