"""Real-time alerts, timed from sending the event to receiving the alert, at a steady rate.

Sender and receiver are librdkafka in this process, with one clock. Every event satisfies the condition and carries its send
time, which its alert returns.
"""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import quantiles
from threading import Thread
from typing import TYPE_CHECKING, Final

from confluent_kafka import Consumer, Producer, TopicPartition

from catchment.bench.measure import Measure, Section
from catchment.bench.pipelines.throughput import PIPELINE, PIPELINES
from catchment.bench.spark.side import Side
from catchment.bench.spark.stage import Stage
from catchment.bench.workloads.workload import fresh_topic
from catchment.pipelines.alerts.rule import AlertRule
from catchment.pipelines.realtime.query import RealtimeSource, alert_records, source_rows, start_alert

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

SCHEMA: Final = "id string, at timestamp, sent_ns bigint, load double"
_ARRIVAL_TIMEOUT_S: Final = 90.0
_LIMIT_MS: Final = 15.0


@dataclass(frozen=True, slots=True)
class RealtimeAlertLatency:
    """The latency of alerts through Spark's real-time mode."""

    seconds: float
    warming_s: float
    name: str = "realtime-alert-latency"
    section: Section = PIPELINES
    sides: Sequence[Side] = (PIPELINE,)

    @property
    def measures(self) -> Sequence[Measure]:
        p50, p99 = (f"event to alert in real-time mode at 200/s, {one}" for one in ("p50", "p99"))
        return (
            Measure(f"{self.name}-p50", p50, "ms", higher_is_better=False, limit=_LIMIT_MS),
            Measure(f"{self.name}-p99", p99, "ms", higher_is_better=False),
        )

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        with (
            fresh_topic(stage.target, 1) as events,
            fresh_topic(stage.target, 1) as alerts,
            tempfile.TemporaryDirectory(dir=stage.directory) as checkpoint,
        ):
            took_ms = latencies_ms(
                stage.spark,
                stage.bootstrap_servers,
                events,
                alerts,
                Path(checkpoint),
                seconds=self.seconds,
                warming_s=self.warming_s,
            )
        cuts = quantiles(took_ms, n=100)
        return {f"{self.name}-p50": cuts[49], f"{self.name}-p99": cuts[98]}


def latencies_ms(
    spark: SparkSession,
    bootstrap_servers: str,
    events_topic: str,
    alerts_topic: str,
    checkpoint: Path,
    *,
    seconds: float,
    warming_s: float,
    per_second: int = 200,
) -> list[float]:
    """The latency of each alert, sorted. The topics exist, with one partition each.

    The events of the first `warming_s` seconds do not count: the query is still starting, and its code is not compiled yet.
    """
    rule = AlertRule("bench", "load", "load > 0.5", ("id",), "at", topics=(alerts_topic,), message="{id}: {load}")
    options = {"kafka.bootstrap.servers": bootstrap_servers}
    source = RealtimeSource("events", events_topic, SCHEMA)
    records = alert_records(source_rows(spark, source, options), rule)
    with (
        _stopped(start_alert(records, "bench-alert", options, str(checkpoint))) as query,
        closing(Consumer({"bootstrap.servers": bootstrap_servers, "group.id": "bench"})) as consumer,
    ):
        consumer.assign([TopicPartition(alerts_topic, 0, 0)])
        producer = Producer({"bootstrap.servers": bootstrap_servers, "linger.ms": 0})
        _exchange(producer, consumer, events_topic, query, 1, 1.0)
        _exchange(producer, consumer, events_topic, query, round(per_second * warming_s), per_second)
        return sorted(_exchange(producer, consumer, events_topic, query, round(per_second * seconds), per_second))


def _exchange(
    producer: Producer, consumer: Consumer, topic: str, query: StreamingQuery, count: int, per_second: float
) -> list[float]:
    """Send `count` events, and wait for the alert of each."""
    sender = Thread(target=_send, args=(producer, topic, count, per_second))
    sender.start()
    found = []
    for _ in range(count):
        arrived = consumer.poll(_ARRIVAL_TIMEOUT_S)
        arrived_ns = time.perf_counter_ns()
        if arrived is None or (value := arrived.value()) is None:
            raise RuntimeError(f"an alert did not arrive: {query.exception() or arrived!r}")
        found.append((arrived_ns - json.loads(value)["row"]["sent_ns"]) / 1e6)
    sender.join()
    return found


def _send(producer: Producer, topic: str, count: int, per_second: float) -> None:
    began = time.perf_counter()
    for number in range(count):
        time.sleep(max(0.0, began + number / per_second - time.perf_counter()))
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        event = {"id": f"host-{number}", "at": at, "sent_ns": time.perf_counter_ns(), "load": 0.9}
        producer.produce(topic, json.dumps(event))
        producer.poll(0)
    producer.flush()


@contextmanager
def _stopped(query: StreamingQuery) -> Iterator[StreamingQuery]:
    try:
        yield query
    finally:
        query.stop()
