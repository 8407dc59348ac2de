"""The Spark workloads of a run."""

from __future__ import annotations

from catchment.bench.spark.clients import Clients
from catchment.bench.spark.growth import partition_shapes, record_shapes
from catchment.bench.spark.latency import MicroBatchLatency, RealTimeLatency
from catchment.bench.spark.reading import Read
from catchment.bench.spark.stage import TopicShape
from catchment.bench.spark.stream_throughput import ExactlyOnceStream
from catchment.bench.spark.workload import SparkWorkload
from catchment.bench.spark.writing import ExactlyOnceWrite, Write

_READ_RECORDS = {100: 6_000_000, 1_000: 1_000_000}
_WRITE_RECORDS = {100: 3_000_000, 1_000: 500_000}
_QUICK_DIVISOR = 20
_GROWTH_RECORDS = 8_000_000


def workloads(*, quick: bool = False) -> list[SparkWorkload]:
    """Everything that has sides to compare, ordered so that those with the same topic are adjacent."""
    divisor = _QUICK_DIVISOR if quick else 1
    found: list[SparkWorkload] = []
    for record_bytes, records in _READ_RECORDS.items():
        for codec in ("none", "lz4", "zstd"):
            shape = TopicShape(record_bytes, records // divisor, codec=codec)
            found += [Read(shape), Read(shape, value_alone=True)]
    found += [Write(size, records // divisor) for size, records in _WRITE_RECORDS.items()]
    found += [ExactlyOnceWrite(size, records // divisor) for size, records in _WRITE_RECORDS.items()]
    found.append(ExactlyOnceStream(TopicShape(100, _READ_RECORDS[100] // divisor // 2)))
    latency_records = 10 if quick else 30
    found += [MicroBatchLatency(latency_records), RealTimeLatency(latency_records)]
    found += [Clients(TopicShape(size, records // divisor // 4)) for size, records in _READ_RECORDS.items()]
    return found


def growths(cores: int, *, quick: bool = False, full: bool = False) -> dict[str, tuple[str, dict[int, TopicShape]]]:
    """What grows, by the name that `--workload` matches, with its title and sizes.

    A hundred million records take 12 GB of disk, so they are measured only with `full`.
    """
    divisor = _QUICK_DIVISOR if quick else 1
    record_counts = [count // divisor for count in (1_000_000, 10_000_000)] + ([100_000_000] if full else [])
    return {
        "growth-partitions": ("read, by partitions of the topic", partition_shapes(_GROWTH_RECORDS // divisor, cores)),
        "growth-records": ("read, by records in the topic", record_shapes(record_counts)),
    }
