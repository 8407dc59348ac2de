"""One record at a time through a streaming query from topic to topic, timed from its sending to its arrival.

Sender and receiver are librdkafka in this process, with one clock. The next record leaves a random moment after the
last one has arrived, so that records do not fall into step with the query's batches.
"""

from __future__ import annotations

import random
import struct
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from confluent_kafka import Consumer, Producer, TopicPartition

from catchment.bench.measure import Measure, Section, percentile
from catchment.bench.spark.side import AT_LEAST_ONCE, EXACTLY_ONCE, THEIRS, THEIRS_TUNED, Side
from catchment.bench.spark.stage import Stage
from catchment.bench.spark.workload import STREAM
from catchment.bench.workloads.workload import fresh_topic

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

DEFAULT_BAR = 0.3
TUNED_BAR = 1.1
REAL_TIME_LIMIT_MS = 10
_TIMESTAMP = struct.Struct(">q")
_ARRIVAL_TIMEOUT_SECONDS = 60
_PAUSE_SECONDS = (0.05, 0.25)
# The first ones reach a query that is still starting, and code that is not compiled yet.
_UNTIMED_RECORDS = 10
# A real-time batch lasts this long; records pass through it meanwhile. PySpark's types do not have this trigger yet.
_REAL_TIME_TRIGGER = {"realTime": "60 seconds"}


@dataclass(frozen=True, slots=True)
class MicroBatchLatency:
    """Our default guarantee compared with their default, and each of our guarantees with their connector tuned for latency."""

    records: int
    name: str = "latency"
    section: Section = STREAM
    sides: Sequence[Side] = (EXACTLY_ONCE, AT_LEAST_ONCE, THEIRS, THEIRS_TUNED)

    @property
    def measures(self) -> Sequence[Measure]:
        tuned = THEIRS_TUNED.column
        return (
            Measure("p50 default", "micro-batch p50, defaults", "ms", False, bar=DEFAULT_BAR),
            Measure("p50 exactly once", "micro-batch p50, ours exactly once", "ms", False, TUNED_BAR, tuned),
            Measure("p50 at least once", "micro-batch p50, both at least once", "ms", False, TUNED_BAR, tuned),
            Measure("p95 default", "micro-batch p95, defaults", "ms", False),
        )

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        ordered_ms = latencies_ms(stage, side, self.records)
        p50_ms, p95_ms = percentile(ordered_ms, 0.5), percentile(ordered_ms, 0.95)
        rows = {"p50 default": p50_ms, "p95 default": p95_ms, "p50 exactly once": p50_ms, "p50 at least once": p50_ms}
        parts = {
            EXACTLY_ONCE.title: ("p50 default", "p95 default", "p50 exactly once"),
            AT_LEAST_ONCE.title: ("p50 at least once",),
            THEIRS.title: ("p50 default", "p95 default"),
            THEIRS_TUNED.title: ("p50 exactly once", "p50 at least once"),
        }
        return {key: rows[key] for key in parts[side.title]}


@dataclass(frozen=True, slots=True)
class RealTimeLatency:
    """Spark's own source and sink in real-time mode, which supports no Python source: the millisecond path on our broker."""

    records: int
    name: str = "real-time"
    section: Section = STREAM
    sides: Sequence[Side] = (Side("real-time mode", EXACTLY_ONCE.column, THEIRS.format),)

    @property
    def measures(self) -> Sequence[Measure]:
        return (
            Measure("real time p50", "real-time mode p50, Spark's connector", "ms", False, limit=REAL_TIME_LIMIT_MS),
            Measure("real time p99", "real-time mode p99, Spark's connector", "ms", False),
        )

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        ordered_ms = latencies_ms(stage, side, self.records, real_time=True)
        return {"real time p50": percentile(ordered_ms, 0.5), "real time p99": percentile(ordered_ms, 0.99)}


def latencies_ms(stage: Stage, side: Side, records: int, *, real_time: bool = False) -> list[float]:
    """The latency of each record, sorted."""
    with (
        fresh_topic(stage.target, 1) as source_topic,
        fresh_topic(stage.target, 1) as sink_topic,
        running_query(stage, side, source_topic, sink_topic, real_time=real_time) as query,
        closing(Consumer({"bootstrap.servers": stage.bootstrap_servers, "group.id": "bench"})) as consumer,
    ):
        consumer.assign([TopicPartition(sink_topic, 0, 0)])
        producer = Producer({"bootstrap.servers": stage.bootstrap_servers, "linger.ms": 0})
        pauses = random.Random(records)
        found = []
        for _ in range(_UNTIMED_RECORDS + records):
            found.append(_milliseconds_to_arrival(producer, source_topic, consumer, query))
            time.sleep(pauses.uniform(*_PAUSE_SECONDS))
    return sorted(found[_UNTIMED_RECORDS:])


def _milliseconds_to_arrival(producer: Producer, topic: str, consumer: Consumer, query: StreamingQuery) -> float:
    began_ns = time.perf_counter_ns()
    value = _TIMESTAMP.pack(began_ns)
    producer.produce(topic, value, partition=0)
    arrived = consumer.poll(_ARRIVAL_TIMEOUT_SECONDS)
    arrived_ns = time.perf_counter_ns()
    if arrived is None or arrived.value() != value:
        raise RuntimeError(f"the record did not arrive: {query.exception() or arrived!r}")
    # Remove the delivery report from the producer's queue.
    producer.poll(0)
    return (arrived_ns - began_ns) / 1e6


@contextmanager
def running_query(
    stage: Stage, side: Side, source_topic: str, sink_topic: str, *, real_time: bool
) -> Iterator[StreamingQuery]:
    """A query that copies one topic to another until the block ends."""
    reader = stage.spark.readStream.format(side.format).options(**side.read_options)
    reader = reader.option("kafka.bootstrap.servers", stage.bootstrap_servers).option("subscribe", source_topic)
    rows = reader.option("startingOffsets", "earliest").load().select("key", "value")
    writer = rows.writeStream.format(side.format).options(**side.write_options)
    writer = writer.option("kafka.bootstrap.servers", stage.bootstrap_servers).option("topic", sink_topic)
    if real_time:
        writer = writer.trigger(**_REAL_TIME_TRIGGER).outputMode("update")
    with tempfile.TemporaryDirectory(dir=stage.directory) as checkpoint:
        query = writer.option("checkpointLocation", checkpoint).start()
        try:
            yield query
        finally:
            query.stop()
