"""A pipeline that has run, made without Spark: what a run leaves in its home, its store, its lake and its topics."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast
from unittest.mock import patch

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.pipelines.lakes.lake_world import numbers, put
from tests.pipelines.stores.boards import SCHEMA, rows
from typer.testing import CliRunner, Result

from catchment.cli.app import app
from catchment.pipelines.declaration.loading import load
from catchment.pipelines.execution.claiming import claim_lake, claim_table, claim_topics
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.execution.topics import make_topics
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home
from catchment.pipelines.lakes.lake_opening import open_lake
from catchment.pipelines.ownership.notes import begun
from catchment.pipelines.ownership.targets import written_targets
from catchment.pipelines.planning import Current, Kept, Signature, compare, keep
from catchment.pipelines.planning.signature import Target
from catchment.pipelines.stores.definition import Layout
from catchment.pipelines.stores.store_opening import open_store

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_numbers = itertools.count()
_TIMEOUT_S = 60.0
FILE = """
pipeline: {name}
version: {version}
parallelism: 1
sources:
  reports: {{topic: {name}-reports, schema: "{schema}", event_time: at, lateness: 20 seconds}}
stages:
  {clean}: {{from: reports, dedupe: id, to: {{topic: {name}.clean}}}}
  board:
    mode: update
    key: [district, start]
    sql: |
      SELECT district, w.start, w.end, n AS count
      FROM (SELECT district, window(at, '10 seconds') w, count(*) n FROM {clean} GROUP BY 1, 2)
sinks:
  - {{from: board, store: "sqlite:///{folder}/city.db", table: board, name: {board}}}
  - {{from: {clean}, lake: {folder}/lake, name: lake}}
  - {{from: {clean}, topic: {name}-copy, name: copy}}
"""
EVENTS = "id string, district string, at timestamp"


class SparkStarted(Exception):
    """Nothing was refused, and Spark would be started next."""


class Town:
    """A pipeline's file, its home, and everything that it writes to."""

    def __init__(self, servers: str, folder: Path, name: str | None = None) -> None:
        self.servers = servers
        self._admin = AdminClient({"bootstrap.servers": servers, "log_level": 0})
        self.folder = folder
        self.name = name or f"town{next(_numbers)}"
        self.file = folder / f"{self.name}.yaml"
        self.home = Home(folder / "home", self.name)
        self.write_file()
        self.make_topic(f"{self.name}-reports")

    def write_file(self, **changes: Any) -> None:
        """The pipeline, with these words of it changed."""
        words = {"version": 1, "clean": "clean", "board": "board", "schema": EVENTS, "folder": self.folder}
        self.file.write_text(FILE.format(name=self.name, **words | changes))

    def make_topic(self, topic: str) -> None:
        [made] = self._admin.create_topics([NewTopic(topic, 1)]).values()
        made.result(_TIMEOUT_S)

    def delete_topic(self, topic: str) -> None:
        [gone] = self._admin.delete_topics([topic]).values()
        gone.result(_TIMEOUT_S)

    def topics(self) -> set[str]:
        listed = self._admin.list_topics(timeout=_TIMEOUT_S)
        return {one for one in listed.topics if one.startswith(self.name)}

    def context(self, home: Home | None = None) -> RunContext:
        graph = Graph(load(self.file).specification)
        # Nothing that a claim does needs Spark.
        spark = cast("SparkSession", None)
        return RunContext(spark, graph, self.servers, {}, home or self.home, self.folder)

    def run(self, home: Home | None = None, *, batch: int = 0) -> None:
        """Do what a run does: claim everything, and write a batch of each query."""
        context = self.context(home)
        queries = [query for level in context.graph.order for query in level]
        make_topics(context, 1)
        claim_topics(context, queries)
        self.write_batch(context, batch, is_claimed=True)

    def write_batch(self, context: RunContext, batch: int, *, is_claimed: bool) -> None:
        """The same without the topics; a run of an earlier release claimed nothing."""
        home = context.home
        with open_store(f"sqlite:///{self.folder}/city.db", "board") as store:
            query = next(one for one in context.graph.sinks_by_query if one.startswith("outlet-board"))
            identity = begun(home, query, 1)
            _plan(home, query, batch)
            if is_claimed:
                claim_table(context, query, store)
            store.prepare(SCHEMA, Layout("board", ("district", "start"), window_end="end"))
            store.write(rows([("harbour", batch, 1)]), identity, batch, 1)
        lake = open_lake(f"{self.folder}/lake")
        identity = begun(home, "outlet-lake", 1)
        _plan(home, "outlet-lake", batch)
        if is_claimed:
            claim_lake(context, "outlet-lake", lake)
        put(lake, numbers(batch), identity, batch)
        for query in ("clean", "outlet-copy"):
            begun(home, query, 1)
            _plan(home, query, batch)
        producer = Producer({"bootstrap.servers": self.servers, "log_level": 0})
        for topic in (f"{self.name}.clean", f"{self.name}-copy"):
            producer.produce(topic, b"{}")
        assert producer.flush(_TIMEOUT_S) == 0
        self._keep(context)

    def _keep(self, context: RunContext) -> None:
        queries = {}
        for query, one in written_targets(context.graph, context.folder):
            kind = "outlet" if query.startswith("outlet-") else "intake"
            stage = "board" if one.kind == "table" else "clean"
            target = Target(name=one.name, place=one.digest, stage=stage, has_versions=one.has_versions)
            queries[query] = Signature(kind=cast("Any", kind), reads=("x",), columns={"id": "string"}, target=target)
        keep(context.home, compare(Kept(pipeline=self.name), Current(version=1, queries=queries)))

    def command(self, verb: str, *arguments: object, home: Home | None = None, servers: str | None = None) -> Result:
        """A command, as far as it comes without Spark."""
        line = ["pipeline", *verb.split(" ")[:1], str(self.file), *(["board"] if verb == "backfill" else [])]
        line += [*verb.split(" ")[1:], *map(str, arguments), "--home", str((home or self.home).root)]
        with _no_spark():
            return CliRunner().invoke(app, [*line, "--bootstrap-server", servers or self.servers])

    def stored(self) -> int:
        with open_store(f"sqlite:///{self.folder}/city.db", "board") as store:
            return int(store.read().num_rows)


@contextmanager
def _no_spark() -> Iterator[None]:
    session = "pipeline_session"
    with (
        patch(f"catchment.pipelines.execution.session.{session}", side_effect=SparkStarted),
        patch("catchment.pipelines.execution.session.plan_session", side_effect=SparkStarted),
        patch(f"catchment.pipelines.command_context.{session}", side_effect=SparkStarted),
        patch("catchment.pipelines.driving.supervision.supervisor.Supervisor._supervise", side_effect=SparkStarted),
    ):
        yield


def _plan(home: Home, query: str, batch: int) -> None:
    """What Spark notes of a batch that is done."""
    checkpoint = home.checkpoint(query, 1)
    facts = {"batchWatermarkMs": 0, "batchTimestampMs": 0}
    for folder, text in (("offsets", f"v1\n{json.dumps(facts)}\n{{}}"), ("commits", 'v1\n{"nextBatchWatermarkMs":0}')):
        (checkpoint / folder).mkdir(parents=True, exist_ok=True)
        (checkpoint / folder / str(batch)).write_text(text)
