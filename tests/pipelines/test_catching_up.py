"""A query has caught up when all between it and the events have: where the topics between them end says nothing before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home
from catchment.pipelines.loading import load

if TYPE_CHECKING:
    from tests.client.logs import Logs

    from catchment.pipelines.execution.catching_up import CatchingUp

DEADLINE_S = 30.0
QUERY = "outlet-board-store"
FILE = """
pipeline: way
sources:
  reports: {topic: way-reports, schema: "id string, at timestamp", event_time: at, lateness: 20 seconds}
stages:
  clean: {from: reports, dedupe: id}
  busy: {from: clean, sql: SELECT * FROM clean, to: {topic: way.busy}}
  board: {from: busy, mode: update, key: id, sql: "SELECT id, count(*) AS n FROM busy GROUP BY 1"}
sinks:
  - {from: board, store: "sqlite:///city.db", table: board}
"""


class Way:
    """Events on their way through three queries, each of which is as far as the test says."""

    def __init__(self, servers: str, folder: Path) -> None:
        self._servers = servers
        self._folder = folder
        self._producer = Producer({"bootstrap.servers": servers, "log_level": 0})
        self.home = Home(folder / "home", "way")
        admin = AdminClient({"bootstrap.servers": servers})
        for made in admin.create_topics(
            [NewTopic(one, 1) for one in ("way-reports", "way.clean", "way.busy")]
        ).values():
            made.result(DEADLINE_S)

    def begin(self) -> CatchingUp:
        from catchment.pipelines.execution.catching_up import CatchingUp
        from catchment.pipelines.execution.workplace import Workplace

        file = self._folder / "way.yaml"
        file.write_text(FILE)
        graph = Graph(load(file).specification)
        place = Workplace(
            cast("Any", None), graph, servers=self._servers, kafka={}, home=self.home, folder=self._folder
        )
        return CatchingUp(place, QUERY)

    def write(self, topic: str, records: int) -> None:
        for number in range(records):
            self._producer.produce(topic, str(number))
        assert self._producer.flush(DEADLINE_S) == 0

    def finish(self, query: str, topic: str, offset: int) -> None:
        """Note a batch, as Spark does."""
        checkpoint = self.home.checkpoint(query, 1)
        batch_id = len(list(checkpoint.glob("commits/*")))
        facts = json.dumps({"batchWatermarkMs": 0, "batchTimestampMs": 0})
        for folder, text in (("offsets", f"v1\n{facts}\n{json.dumps({topic: {'0': offset}})}"), ("commits", "v1\n{}")):
            (checkpoint / folder).mkdir(parents=True, exist_ok=True)
            (checkpoint / folder / str(batch_id)).write_text(text)


@pytest.fixture
def way(catchment_logs: Logs, tmp_path: Path) -> Way:
    return Way(catchment_logs.bootstrap_servers, tmp_path)


def test_a_query_has_caught_up_when_those_above_it_have_and_it_has_read_what_they_wrote(way: Way) -> None:
    way.write("way-reports", 3)
    catching_up = way.begin()
    way.write("way-reports", 5)
    assert not catching_up.is_done(), "nothing is read"

    way.write("way.clean", 1)
    way.finish("clean", "way-reports", 2)
    way.write("way.busy", 1)
    way.finish("busy", "way.clean", 1)
    way.finish(QUERY, "way.busy", 1)
    assert not catching_up.is_done(), "all that is between is read, but not all events are"

    way.write("way.clean", 1)
    way.finish("clean", "way-reports", 3)
    assert not catching_up.is_done(), "the step in between has not read what came of them"

    way.write("way.busy", 1)
    way.finish("busy", "way.clean", 2)
    assert not catching_up.is_done(), "the query itself has not"

    way.write("way.busy", 1)
    way.finish(QUERY, "way.busy", 2)
    assert catching_up.is_done(), "what came later is not waited for"
