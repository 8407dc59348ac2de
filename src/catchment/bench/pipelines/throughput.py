"""Rows a second through a whole pipeline, compared with the same stages written by hand."""

from __future__ import annotations

import tempfile
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from catchment.bench.measure import Measure, Section
from catchment.bench.pipelines import by_hand
from catchment.bench.pipelines.reports import KINDS, SCHEMA, Topics, distinct, fill, fresh_topics
from catchment.bench.spark.side import OUR_FORMAT, Side
from catchment.bench.spark.stage import Stage
from catchment.bench.spark.workload import rate_measures, rates
from catchment.bench.target import OURS
from catchment.pipelines import Pipeline, check, lake, store, topic
from catchment.pipelines.execution.run import Run, run_context
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

PIPELINES: Final = Section("pipelines", "pipelines from topic to stores")
PIPELINE: Final = Side("pipeline", OURS, OUR_FORMAT)
BY_HAND: Final = Side("by hand", "by hand", OUR_FORMAT)
_BAR: Final = 0.9
_PARTITIONS: Final = 4


@dataclass(frozen=True, slots=True)
class PipelineThroughput:
    """The clock runs from the start of the first query to the end of the last; existing records are processed, level by level."""

    records: int
    name: str = "pipeline-throughput"
    section: Section = PIPELINES
    sides: Sequence[Side] = (PIPELINE, BY_HAND)

    @property
    def measures(self) -> Sequence[Measure]:
        return rate_measures(self.name, "reports to topic, SQLite and lake", _BAR, BY_HAND.column)

    def run(self, stage: Stage, side: Side) -> dict[str, float]:
        with (
            fresh_topics(stage, _PARTITIONS) as topics,
            tempfile.TemporaryDirectory(dir=stage.directory) as folder,
        ):
            fill(stage, topics.reports, topics.crews, self.records)
            start = _pipeline if side is PIPELINE else _by_hand
            drain = start(stage, topics, Path(folder))
            with stage.costs() as cost:
                drain()
            if (written := stage.count_written(topics.clean)) != distinct(self.records):
                raise RuntimeError(f"{written} rows of {distinct(self.records)} went through")
        return rates(self.name, self.records, cost)


def _pipeline(stage: Stage, topics: Topics, folder: Path) -> Callable[[], None]:
    name = f"bench{uuid.uuid4().hex[:8]}"
    graph = Graph(reports_pipeline(name, topics, folder).check())
    home = Home(folder / "home", name)
    run = Run(run_context(stage.spark, graph, home=home, folder=folder, servers=stage.bootstrap_servers))
    run.build()
    return run.drain


def reports_pipeline(name: str, topics: Topics, folder: Path) -> Pipeline:
    """Reports, cleaned; counted beside the crews into SQLite; kept as Parquet, as by hand."""
    made = Pipeline(name, parallelism=_PARTITIONS)
    reports = made.source(
        topic(topics.reports, schema=SCHEMA, on_error="quarantine"), name="reports", event_time="at", lateness="20 s"
    )
    crews = made.table(topic(topics.crews, schema="district string, crew int"), name="crews", key="district")
    clean = made.stage(
        "clean", reports, dedupe="id", checks=[check(f"kind IN {KINDS}")], to=topic(topics.clean, key="district")
    )

    @made.stage(clean, crews, mode="update", key=["district", "start"])
    def board(clean: DataFrame, crews: DataFrame) -> DataFrame:
        counts = clean.groupBy("district", F.window("at", "10 seconds").alias("w")).count()
        return counts.join(crews, "district", "left").select("district", "w.start", "w.end", "count", "crew")

    made.sink(board, store(f"sqlite:///{folder}/board.db", table="board"))
    made.sink(clean, lake(f"{folder}/lake", format="parquet"))
    return made


def _by_hand(stage: Stage, topics: Topics, folder: Path) -> Callable[[], None]:
    arguments = (stage.spark, stage.bootstrap_servers, topics)

    def drain() -> None:
        cleaning = by_hand.cleaning(*arguments, folder / "c1")
        cleaning.trigger(availableNow=True).start().awaitTermination()
        sinks = [
            by_hand.counting(*arguments, folder, folder / "c2"),
            by_hand.keeping(*arguments, folder, folder / "c3"),
        ]
        for query in [one.trigger(availableNow=True).start() for one in sinks]:
            query.awaitTermination()

    return drain
