"""From an event to the real-time store, at a steady rate: how old the newest event of a row is when a reader finds it there."""

from __future__ import annotations

import json
import sqlite3
import tempfile
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import quantiles
from threading import Event, Thread
from typing import Final

from confluent_kafka import Producer

from catchment.bench.measure import Measure, Section
from catchment.bench.pipelines.reports import DISTRICTS, Topics, fresh_topics
from catchment.bench.pipelines.throughput import PIPELINE, PIPELINES, reports_pipeline
from catchment.bench.spark.side import Side
from catchment.bench.spark.stage import Stage
from catchment.pipelines.execution.run import Run, workplace
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home

_PER_SECOND: Final = 1_000
_WARMING_S: Final = 15.0
_LOOK_S: Final = 0.01
_LIMIT_MS: Final = 1_000.0


@dataclass(frozen=True, slots=True)
class StoreLatency:
    """A probe's count changes when its event has arrived: every quarter of a second one event is for a district of its own."""

    seconds: float
    name: str = "pipeline-latency"
    section: Section = PIPELINES
    sides: Sequence[Side] = (PIPELINE,)

    @property
    def measures(self) -> Sequence[Measure]:
        return (
            Measure("p50", "event to SQLite at 1,000/s, p50", "ms", higher_is_better=False, limit=_LIMIT_MS),
            Measure("p99", "event to SQLite at 1,000/s, p99", "ms", higher_is_better=False),
        )

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        name = f"bench{uuid.uuid4().hex[:8]}"
        with (
            fresh_topics(stage, 2) as topics,
            tempfile.TemporaryDirectory(dir=stage.directory) as folder,
        ):
            graph = Graph(reports_pipeline(name, topics, Path(folder)).check())
            home = Home(Path(folder) / "home", name)
            run = Run(workplace(stage.spark, graph, home=home, folder=Path(folder), servers=stage.bootstrap_servers))
            run.build()
            run.start()
            try:
                took_ms = _measure(stage, topics, Path(folder) / "board.db", self.seconds)
            finally:
                run.stop()
        cuts = quantiles(took_ms, n=100)
        return {"p50": cuts[49], "p99": cuts[98]}


def _measure(stage: Stage, topics: Topics, database: Path, seconds: float) -> list[float]:
    """Milliseconds from the sending of each probe to its row in the store."""
    sent_s: dict[str, float] = {}
    over = Event()
    sender = Thread(target=_send, args=(stage.bootstrap_servers, topics.reports, sent_s, over))
    sender.start()
    took_ms: list[float] = []
    seen: set[str] = set()
    try:
        end_s = time.monotonic() + _WARMING_S + seconds
        while time.monotonic() < end_s:
            for probe in _probes(database) - seen:
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


def _send(servers: str, topic: str, sent_s: dict[str, float], over: Event) -> None:
    producer = Producer({"bootstrap.servers": servers, "linger.ms": 1})
    number = 0
    begin_s = time.monotonic()
    while not over.is_set():
        is_probe = number % (_PER_SECOND // 4) == 0
        district = f"probe {number}" if is_probe else DISTRICTS[number % len(DISTRICTS)]
        event = {"id": str(number), "district": district, "kind": "fire", "at": datetime.now(UTC).isoformat()}
        if is_probe:
            sent_s[district] = time.monotonic()
        producer.produce(topic, json.dumps(event), key=str(number))
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
