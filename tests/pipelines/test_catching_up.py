"""A query has caught up when all between it and the events have: where the topics between them end says nothing before."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from catchment.pipelines.declaration.loading import load
from catchment.pipelines.driving.supervision.run_file import RunLock, write_run
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home
from catchment.pipelines.stores.store import Version

if TYPE_CHECKING:
    from tests.client.logs import Logs

    from catchment.pipelines.execution.run_context import RunContext

DEADLINE_S = 150.0
QUERY = "outlet-board-store-board"
FILE = """
pipeline: {name}
version: 2
sources:
  reports: {{topic: {name}.reports, schema: "id string, at timestamp", event_time: at, lateness: 20 seconds}}
stages:
  clean: {{from: reports, dedupe: id}}
  busy: {{from: clean, sql: SELECT * FROM clean, to: {{topic: {name}.busy}}}}
  board: {{from: busy, mode: update, key: id, sql: "SELECT id, count(*) AS n FROM busy GROUP BY 1"}}
sinks:
  - {{from: board, store: "sqlite:///city.db", table: board}}
"""
_numbers = itertools.count()


class Way:
    """Events on their way through three queries, each of which is as far as the test says."""

    def __init__(self, servers: str, folder: Path) -> None:
        self._servers = servers
        self._folder = folder
        self._producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        self._name = f"way{next(_numbers)}"
        self.home = Home(folder / "home", self._name)
        topics = [NewTopic(f"{self._name}.{one}", 1) for one in ("reports", "clean", "busy")]
        admin = AdminClient({"bootstrap.servers": servers})
        for made in admin.create_topics(topics).values():
            made.result(DEADLINE_S)

    def context(self, versions: dict[str, int] | None = None) -> RunContext:
        """All that is needed where no query is started."""
        from catchment.pipelines.execution.run_context import RunContext

        file = self._folder / "way.yaml"
        file.write_text(FILE.format(name=self._name))
        graph = Graph(load(file).specification, versions)
        no_spark = cast("Any", None)
        return RunContext(no_spark, graph, self._servers, {}, self.home, self._folder, versions or {})

    def write(self, topic: str, records: int) -> None:
        for number in range(records):
            self._producer.produce(f"{self._name}.{topic}", str(number))
        assert self._producer.flush(DEADLINE_S) == 0

    def finish(self, query: str, topic: str, offset: int, version: int = 1) -> None:
        """Note a batch, as Spark does."""
        checkpoint = self.home.checkpoint(query, version)
        batch_id = len(list(checkpoint.glob("commits/*")))
        facts = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0})
        plan = f"v1\n{facts}\n{json.dumps({f'{self._name}.{topic}': {'0': offset}})}"
        for folder, text in (("offsets", plan), ("commits", "v1\n{}")):
            (checkpoint / folder).mkdir(parents=True, exist_ok=True)
            (checkpoint / folder / str(batch_id)).write_text(text)


@pytest.fixture
def way(catchment_logs: Logs, tmp_path: Path) -> Way:
    return Way(catchment_logs.bootstrap_servers, tmp_path)


def test_a_query_has_caught_up_when_those_above_it_have_and_it_has_read_what_they_wrote(way: Way) -> None:
    from catchment.pipelines.execution.catching_up import CatchingUp

    way.write("reports", 3)
    catching_up = CatchingUp(way.context(), QUERY)
    way.write("reports", 5)
    assert not catching_up.is_done(), "nothing is read"

    way.write("clean", 1)
    way.finish("clean", "reports", 2)
    way.write("busy", 1)
    way.finish("busy", "clean", 1)
    way.finish(QUERY, "busy", 1)
    assert not catching_up.is_done(), "all that is between is read, but not all events are"

    way.write("clean", 1)
    way.finish("clean", "reports", 3)
    assert not catching_up.is_done(), "the stage in between has not read what came of them"

    way.write("busy", 1)
    way.finish("busy", "clean", 2)
    assert not catching_up.is_done(), "the query itself has not"

    way.write("busy", 1)
    way.finish(QUERY, "busy", 2)
    assert catching_up.is_done(), "what came later is not waited for"


def test_a_backfill_beside_a_run_of_the_same_version_leaves_the_checkpoint_to_the_run(way: Way) -> None:
    from catchment.pipelines.history.switching import reference_version

    way.finish(QUERY, "busy", 0)
    way.finish(QUERY, "busy", 0, version=2)
    context, told = way.context({QUERY: 2}), list[str]()
    first = Version(1, None, is_live=True, was_shown=True)
    assert reference_version(context, QUERY, first, told.append) == 1, "there is no checkpoint of the second version"

    lock = RunLock(way.home)
    write_run(way.home, {"state": "running", "version": 1})
    assert reference_version(context, QUERY, first, told.append) == 1, "the run goes on with the first"
    write_run(way.home, {"state": "running", "version": 2})
    assert reference_version(context, QUERY, first, told.append) == 2
    lock.close()
    assert reference_version(context, QUERY, first, told.append) == 1
