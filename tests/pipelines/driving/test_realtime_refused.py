"""Alerts that real-time mode rejects only by their plan: they are decided in micro-batches, and the status says why."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.pipelines.driving.commanded_world import COMMAND_S, CommandedWorld
from tests.pipelines.driving.supervised import wait_for

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from catchment import Broker
from catchment.client.arrow_api import read_arrow
from catchment.pipelines.driving.supervision.run_file import is_running

# The test starts Spark twice.
pytestmark = pytest.mark.timeout(1500)

PIPELINE: Final = """
from pyspark.sql import functions as F

from catchment.pipelines import Pipeline, topic

city = Pipeline("city", parallelism=1)
reports = city.source(topic("reports", schema="id int, at timestamp"), event_time="at", lateness="1 minute")


@city.stage(reports, event_time="at")
def doubled(reports):
    return reports.withColumn("twice", F.udf(lambda number: number * 2, "int")("id"))


city.alert(doubled, "big", when="twice >= 10", key="id", trigger="realtime", to=topic("dispatch"))
city.alert(reports, "small", when="id < 2", key="id", trigger="realtime", to=topic("dispatch"))
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CommandedWorld]:
    with Broker() as broker:
        one = CommandedWorld(broker.bootstrap_servers, tmp_path, "")
        one.file = tmp_path / "city.py"
        one.file.write_text(PIPELINE)
        yield one
        if is_running(one.home):
            one.command("stop", "city")


def alerts(world: CommandedWorld) -> list[tuple[str, int]]:
    table = read_arrow("dispatch", world.servers, columns=["value"])
    found: list[dict[str, Any]] = [json.loads(value) for value in table.column("value").to_pylist()]
    return sorted((one["alert"], one["row"]["id"]) for one in found)


def test_alerts_are_decided_in_micro_batches_and_the_status_says_why(
    peer_jars: str | None, world: CommandedWorld
) -> None:
    if peer_jars is None:
        pytest.skip("the jars of Spark's own Kafka connector cannot be fetched: they need Maven")
    world.send(range(8))

    assert world.run("--detach").returncode == 0

    wait_for("the alerts are decided", lambda: len(alerts(world)) == 5, COMMAND_S)
    assert alerts(world) == [("big", 5), ("big", 6), ("big", 7), ("small", 0), ("small", 1)]
    wait_for("the status says it", lambda: len(world.status()["notes"]) == 2)
    run = world.status()
    assert run["notes"] == [
        "alert big is decided in micro-batches: it runs Python for its rows; use Spark's own functions",
        "alert small is decided in micro-batches: it shares a session with big, and all have real-time mode or none",
    ]
    names = {query["name"] for query in run["queries"]}
    assert {"outlet-alert-big", "outlet-alert-small"} <= names
    assert "realtime-alerts" not in names
    assert world.command("stop", "city").returncode == 0
    assert world.status()["exit_code"] == 0
