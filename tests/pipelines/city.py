"""A small city whose reports go through a pipeline: events with known times in, and what came out read back."""

from __future__ import annotations

import itertools
import json
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pyarrow
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.client.settled import read_settled

from catchment.pipelines import Pipeline, check, lake, store, topic
from catchment.pipelines.declaration.specification import RowFormat, WrittenRows
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from catchment.pipelines.execution.run import Run
    from catchment.pipelines.execution.run_context import RunContext
    from catchment.pipelines.planning import Plan

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
SCHEMA = "id string, district string, kind string, at timestamp"
DISTRICTS = ("harbour", "old town", "hills")
_numbers = itertools.count()
_TIMEOUT_S = 150.0


def at(seconds: float) -> datetime:
    """A moment of the story, which begins at noon."""
    return NOON + timedelta(seconds=seconds)


@dataclass(frozen=True)
class Report:
    """One event."""

    id: str
    seconds: float
    district: str | None = "harbour"
    kind: str = "fire"

    def value(self) -> bytes:
        written = {"id": self.id, "district": self.district, "kind": self.kind, "at": at(self.seconds).isoformat()}
        return json.dumps(written).encode()


class City:
    """The topics and folders of one pipeline."""

    def __init__(self, spark: SparkSession, servers: str, folder: Path, name: str | None = None) -> None:
        self.spark = spark
        self.servers = servers
        self.folder = folder
        self.name = name or f"city{next(_numbers)}"
        self._places: list[RunContext] = []
        self._producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        admin = AdminClient({"bootstrap.servers": servers})
        # The story's records are of a time long past.
        kept = {"retention.ms": "-1"}
        wanted = [NewTopic(self.reports, 2, config=kept), NewTopic(self.crews, 1, config={"cleanup.policy": "compact"})]
        for made in admin.create_topics(wanted).values():
            made.result(_TIMEOUT_S)

    @property
    def reports(self) -> str:
        return f"{self.name}-reports"

    @property
    def crews(self) -> str:
        return f"{self.name}-crews"

    def send(self, events: Iterable[Report | bytes], seconds: float) -> None:
        """Records whose own time is that moment of the story."""
        moment_ms = int(at(seconds).timestamp() * 1000)
        for number, event in enumerate(events):
            value = event.value() if isinstance(event, Report) else event
            self._producer.produce(self.reports, value, key=str(number), timestamp=moment_ms)
        assert self._producer.flush(_TIMEOUT_S) == 0

    def send_crew(self, district: str, crew: int | None) -> None:
        self.send_crew_record(
            district, None if crew is None else json.dumps({"district": district, "crew": crew}).encode()
        )

    def send_crew_record(self, district: str, value: bytes | None) -> None:
        """Whatever the value is."""
        self._producer.produce(self.crews, value, key=district)
        assert self._producer.flush(_TIMEOUT_S) == 0

    def pipeline(
        self,
        count: Callable[[DataFrame, DataFrame], DataFrame] | None = None,
        *,
        version: int = 1,
        crews_on_error: Literal["fail", "quarantine", "drop"] = "fail",
        **source: Any,
    ) -> Pipeline:
        """Reports, cleaned; counted every ten seconds beside the crews; kept in SQLite and in a lake."""
        made = Pipeline(self.name, version=version, parallelism=2)
        options = {"event_time": "at", "lateness": "20 seconds", **source}
        reports = made.source(
            topic(self.reports, format="json", schema=SCHEMA, on_error="quarantine"), name="reports", **options
        )
        kept = topic(self.crews, schema="district string, crew int", on_error=crews_on_error)
        crews = made.table(kept, name="crews", key="district")
        clean = made.stage(
            "clean",
            reports,
            dedupe="id",
            checks=[check("kind IN ('fire', 'flood', 'quake')"), check("district IS NOT NULL")],
            to=topic(f"{self.name}.clean", key="district"),
        )

        @made.stage(clean, crews, mode="update", key=["district", "start"])
        def board(clean: DataFrame, crews: DataFrame) -> DataFrame:
            return (count or count_reports)(clean, crews)

        made.sink(board, store(f"sqlite:///{self.folder}/city.db", table="board"), name="board")
        made.sink(clean, lake(f"{self.folder}/lake"), name="lake")
        return made

    def context(
        self,
        pipeline: Pipeline,
        versions: Mapping[str, int] | None = None,
        rows: Mapping[str, WrittenRows] | None = None,
    ) -> RunContext:
        from catchment.pipelines.execution.run import run_context

        graph = Graph(pipeline.check(), versions)
        self._places.append(
            run_context(
                self.spark,
                graph,
                home=self.home,
                folder=self.folder,
                servers=self.servers,
                versions=versions,
                rows=rows,
            )
        )
        return self._places[-1]

    @property
    def home(self) -> Home:
        return Home(self.folder / "home", self.name)

    def drain(self, pipeline: Pipeline, versions: Mapping[str, int] | None = None) -> Run:
        """Process all that is there."""
        return self._drain(self.context(pipeline, versions))

    def _drain(self, context: RunContext) -> Run:
        from catchment.pipelines.execution.run import Run

        run = Run(context)
        run.build()
        run.drain()
        return run

    def plan(self, pipeline: Pipeline) -> Plan:
        """The decision on the existing state; raises `Refused`."""
        from catchment.pipelines.planning import decide

        return decide(self.spark, Graph(pipeline.check()), self.home, self.folder)

    def drain_as_planned(self, pipeline: Pipeline, rows_as: RowFormat | None = None) -> dict[str, str]:
        """Process all that is there, as a run would; what was decided for each query. All topics of stages may have one format."""
        from catchment.pipelines.planning import keep

        plan = self.plan(pipeline)
        keep(self.home, plan)
        rows = {name: one if rows_as is None else WrittenRows(rows_as) for name, one in plan.rows.items()}
        self._drain(self.context(pipeline, plan.versions, rows))
        return {name: one.action for name, one in plan.queries.items()}

    def rows(self, topic_name: str) -> list[dict[str, Any]]:
        """The committed records of a topic, with their headers as a mapping."""
        table = read_settled(topic_name, self.servers, ["key", "value", "headers"])
        return [
            row | {"headers": {one["key"]: one["value"] for one in row["headers"] or ()}} for row in table.to_pylist()
        ]

    def values(self, topic_name: str) -> list[dict[str, Any]]:
        return [self.row_of(row["value"]) for row in self.rows(topic_name)]

    def row_of(self, value: bytes) -> dict[str, Any]:
        """A row out of a topic as JSON has it, also if it is Avro of a pipeline that was run here."""
        from catchment.pipelines.execution.rows.row_values import row_schema
        from catchment.spark.formats.payloads import Payloads
        from catchment.spark.formats.rows.decoding import RowDecoder
        from catchment.spark.formats.rows.schema import MARKER, frame_of

        if not value.startswith(MARKER):
            row: dict[str, Any] = json.loads(value)
            return row
        schemas = {row_schema(columns) for context in self._places for columns in context.schemas.values()}
        schema = next(one for one in schemas if value.startswith(frame_of(one)))
        decoded = RowDecoder((schema,)).decode(Payloads.of(pyarrow.array([value], pyarrow.binary())))
        assert not decoded.errors
        columns = decoded.column[0].as_py().items()
        return {
            name: one.strftime("%FT%T.%fZ") if isinstance(one, datetime) else one
            for name, one in columns
            if one is not None
        }

    def board(self) -> dict[tuple[str, int], tuple[int, int | None]]:
        """What readers of the store see: by district and beginning of the window in seconds, the count and the crew."""
        with sqlite3.connect(self.folder / "city.db") as database:
            found = database.execute('SELECT district, start, "count", crew FROM board').fetchall()
        return {(row[0], seconds_of(row[1])): (row[2], row[3]) for row in found}

    def lake_ids(self) -> list[str]:
        from catchment.pipelines.lakes.lake_opening import open_lake

        ids: list[str] = open_lake(f"{self.folder}/lake").read_arrow().column("id").to_pylist()
        return sorted(ids)


def count_reports(clean: DataFrame, crews: DataFrame) -> DataFrame:
    """The stage of the story: counts of ten seconds, with the crews of the district."""
    from pyspark.sql import functions as F

    counts = clean.groupBy("district", F.window("at", "10 seconds").alias("w")).count()
    return counts.join(crews, "district", "left").select("district", "w.start", "w.end", "count", "crew")


def seconds_of(moment: str) -> int:
    """Seconds of the story, from a store's own text of a moment."""
    return int((datetime.fromisoformat(moment).replace(tzinfo=UTC) - NOON).total_seconds())


def each_once(city: City, version: int, key: str) -> Pipeline:
    """Reports, each once by a key, into a store."""
    made = Pipeline(city.name, version=version, parallelism=2)
    reports = made.source(
        topic(city.reports, schema="id string, district string, kind string, at timestamp", on_error="quarantine"),
        name="reports",
        event_time="at",
        lateness="20 seconds",
    )
    clean = made.stage("clean", reports, dedupe=key, to=topic(f"{city.name}.clean"))
    made.sink(clean, store(f"sqlite:///{city.folder}/city.db", table="board", key="id"), name="board")
    return made
