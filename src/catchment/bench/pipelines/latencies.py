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
from contextlib import closing, contextmanager
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
from catchment.pipelines.execution.run import Run, workplace
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home

_PER_SECOND: Final = 1_000
_WARMING_S: Final = 60.0
"""The JVM spends most of its first minute on compiling Spark."""
_LOOK_S: Final = 0.01
_LIMIT_MS: Final = 1_000.0
_Arrivals = Callable[[], set[str]]


@dataclass(frozen=True, slots=True)
class StoreLatency:
    """Through an intake and a count beside a table, into SQLite, while a lake is written."""

    seconds: float
    name: str = "store-latency"
    section: Section = PIPELINES
    sides: Sequence[Side] = (PIPELINE,)

    @property
    def measures(self) -> Sequence[Measure]:
        return _measures(self.name, "event to SQLite")

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        with fresh_topics(stage, 2) as topics, tempfile.TemporaryDirectory(dir=stage.directory) as folder:
            made = reports_pipeline(_fresh_name(), topics, Path(folder))
            database = Path(folder) / "board.db"
            with _running(stage, made, Path(folder)):
                return _timed(self.name, stage, topics, lambda: _probes(database), self.seconds)


@dataclass(frozen=True, slots=True)
class AlertLatency:
    """Through an intake and an alert by threshold, into a topic."""

    seconds: float
    name: str = "alert-latency"
    section: Section = PIPELINES
    sides: Sequence[Side] = (PIPELINE,)

    @property
    def measures(self) -> Sequence[Measure]:
        return _measures(self.name, "event to alert")

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        with (
            fresh_topics(stage, 2) as topics,
            tempfile.TemporaryDirectory(dir=stage.directory) as folder,
            closing(Consumer({"bootstrap.servers": stage.bootstrap_servers, "group.id": "bench"})) as consumer,
            _running(stage, _alerting_pipeline(topics), Path(folder)),
        ):
            # The topic of the crews, with its one partition, is for the alerts here.
            consumer.assign([TopicPartition(topics.crews, 0, 0)])
            return _timed(self.name, stage, topics, lambda: _alerted(consumer), self.seconds)


def _measures(name: str, what: str) -> tuple[Measure, ...]:
    return (
        Measure(f"{name}-p50", f"{what} at 1,000/s, p50", "ms", higher_is_better=False, limit=_LIMIT_MS),
        Measure(f"{name}-p99", f"{what} at 1,000/s, p99", "ms", higher_is_better=False),
    )


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
    run = Run(workplace(stage.spark, graph, home=home, folder=folder, servers=stage.bootstrap_servers))
    run.build()
    run.start()
    try:
        yield
    finally:
        run.stop()


def _timed(name: str, stage: Stage, topics: Topics, arrived: _Arrivals, seconds: float) -> dict[str, float]:
    cuts = quantiles(_took_ms(stage, topics, arrived, seconds), n=100)
    return {f"{name}-p50": cuts[49], f"{name}-p99": cuts[98]}


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


def _probes(database: Path) -> set[str]:
    try:
        with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as connection:
            found = connection.execute("SELECT district FROM board WHERE district LIKE 'probe %'").fetchall()
    except sqlite3.OperationalError:
        # The pipeline has not made it yet.
        return set()
    return {district for (district,) in found}


def _alerted(consumer: Consumer) -> set[str]:
    values = [message.value() for message in consumer.consume(1000, timeout=0)]
    return {json.loads(value)["row"]["district"] for value in values if value is not None}
