"""From an event to the real-time store, and to an alert in a topic, at a steady rate and in micro-batches.

Four times a second an event is sent for a district of its own: a probe. It has arrived when a reader of the store, or of the
alerts, finds its district there.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from threading import Event, Thread
from typing import Final

from confluent_kafka import Consumer, Producer, TopicPartition

from catchment.bench.measure import Measure, Section
from catchment.bench.pipelines.reports import DISTRICTS, SCHEMA, Topics, fresh_topics
from catchment.bench.pipelines.throughput import PIPELINE, PIPELINES, reports_pipeline
from catchment.bench.spark.side import Side
from catchment.bench.spark.stage import Stage
from catchment.pipelines import Pipeline, topic
from catchment.pipelines.execution.run import Run, run_context
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home

_PER_SECOND: Final = 1_000
_WARMING_S: Final = 60.0
"""The JVM spends most of its first minute on compiling Spark."""
_LOOK_S: Final = 0.01
_LIMIT_MS: Final = 1_000.0
_Arrivals = Callable[[], set[str]]


@dataclass(frozen=True, slots=True)
class Latency:
    """The latency of probes through one pipeline, at a steady rate of other events."""

    name: str
    what: str
    arriving: Callable[[Stage, Topics, Path], AbstractContextManager[_Arrivals]]
    """Runs the pipeline. The returned function lists the probes that have arrived lately."""
    seconds: float
    section: Section = PIPELINES
    sides: Sequence[Side] = (PIPELINE,)

    @property
    def measures(self) -> Sequence[Measure]:
        p50, p99 = (f"{self.what} at 1,000/s, {one}" for one in ("p50", "p99"))
        return (
            Measure(f"{self.name}-p50", p50, "ms", higher_is_better=False, limit=_LIMIT_MS),
            Measure(f"{self.name}-p99", p99, "ms", higher_is_better=False),
        )

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        with (
            fresh_topics(stage, 2) as topics,
            tempfile.TemporaryDirectory(dir=stage.directory) as folder,
            self.arriving(stage, topics, Path(folder)) as arrived,
        ):
            cuts = quantiles(_took_ms(stage, topics, arrived, self.seconds), n=100)
        return {f"{self.name}-p50": cuts[49], f"{self.name}-p99": cuts[98]}


def store_latency(seconds: float) -> Latency:
    """Through a source stage and a count joined with a table, into SQLite, while a lake is written."""
    return Latency("store-latency", "event to SQLite", _stored, seconds)


def alert_latency(seconds: float) -> Latency:
    """Through a source stage and an alert by threshold, into a topic."""
    return Latency("alert-latency", "event to alert", _alerted, seconds)


@contextmanager
def _stored(stage: Stage, topics: Topics, folder: Path) -> Iterator[_Arrivals]:
    with _running(stage, reports_pipeline(_fresh_name(), topics, folder), folder):
        yield lambda: _in_store(folder / "board.db")


@contextmanager
def _alerted(stage: Stage, topics: Topics, folder: Path) -> Iterator[_Arrivals]:
    with (
        closing(Consumer({"bootstrap.servers": stage.bootstrap_servers, "group.id": "bench"})) as consumer,
        _running(stage, _alerting_pipeline(topics), folder),
    ):
        # The topic of the crews, with its one partition, is used for the alerts here.
        consumer.assign([TopicPartition(topics.crews, 0, 0)])
        yield lambda: _in_topic(consumer)


def _alerting_pipeline(topics: Topics) -> Pipeline:
    made = Pipeline(_fresh_name())
    reports = made.source(
        topic(topics.reports, schema=SCHEMA, on_error="quarantine"), name="reports", event_time="at", lateness="20 s"
    )
    clean = made.stage("clean", reports, dedupe="id", to=topic(topics.clean, key="district"))
    made.alert(clean, "probe", when="district LIKE 'probe %'", key="id", to=topic(topics.crews))
    return made


def _fresh_name() -> str:
    return f"bench{uuid.uuid4().hex[:8]}"


@contextmanager
def _running(stage: Stage, pipeline: Pipeline, folder: Path) -> Iterator[None]:
    graph = Graph(pipeline.check())
    home = Home(folder / "home", graph.specification.pipeline)
    run = Run(run_context(stage.spark, graph, home=home, folder=folder, servers=stage.bootstrap_servers))
    run.build()
    run.start()
    try:
        yield
    finally:
        run.stop()


def _took_ms(stage: Stage, topics: Topics, arrived: _Arrivals, seconds: float) -> list[float]:
    """Milliseconds from the sending of each probe to its arrival."""
    sent_s: dict[str, float] = {}
    over = Event()
    sender = Thread(target=_send, args=(stage.bootstrap_servers, topics.reports, sent_s, over))
    sender.start()
    took_ms: list[float] = []
    seen: set[str] = set()
    try:
        end_s = time.monotonic() + _WARMING_S + seconds
        while time.monotonic() < end_s:
            for probe in arrived() - seen:
                seen.add(probe)
                if sent_s[probe] > end_s - seconds:
                    took_ms.append((time.monotonic() - sent_s[probe]) * 1000)
            time.sleep(_LOOK_S)
    finally:
        over.set()
        sender.join()
    if len(took_ms) < 10:
        raise RuntimeError(f"only {len(took_ms)} of {len(sent_s)} probes arrived")
    return took_ms


def _send(servers: str, reports: str, sent_s: dict[str, float], over: Event) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1})
    number = 0
    begin_s = time.monotonic()
    while not over.is_set():
        is_probe = number % (_PER_SECOND // 4) == 0
        district = f"probe {number}" if is_probe else DISTRICTS[number % len(DISTRICTS)]
        event = {"id": str(number), "district": district, "kind": "fire", "at": datetime.now(UTC).isoformat()}
        if is_probe:
            sent_s[district] = time.monotonic()
        producer.produce(reports, json.dumps(event), key=str(number))
        number += 1
        producer.poll(0)
        over.wait(max(0.0, begin_s + number / _PER_SECOND - time.monotonic()))
    producer.flush(30)


def _in_store(database: Path) -> set[str]:
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            found = connection.execute("SELECT district FROM board WHERE district LIKE 'probe %'").fetchall()
    except sqlite3.OperationalError:
        # The pipeline has not created it yet.
        return set()
    return {district for (district,) in found}


def _in_topic(consumer: Consumer) -> set[str]:
    values = [message.value() for message in consumer.consume(1000, timeout=0)]
    return {json.loads(value)["row"]["district"] for value in values if value is not None}
