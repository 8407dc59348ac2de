"""State of a real-time alert is frozen like any other: a changed count is refused, and starts from scratch in a new version."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import pytest
from tests.pipelines.driving.commanded_world import COMMAND_S, SOURCES, CommandedWorld
from tests.pipelines.driving.supervised import wait_for

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from catchment import Broker
from catchment.client.arrow_api import read_arrow
from catchment.pipelines.driving.supervision.run_file import is_running

# The test starts Spark five times.
pytestmark = pytest.mark.timeout(1500)

STAGES: Final = """
stages:
  counted:
    from: reports
    mode: update
    key: [bucket, start]
    sql: |
      SELECT bucket, w.start, w.end, n
      FROM (SELECT id % 2 AS bucket, window(at, '3650 days') AS w, count(*) AS n FROM reports GROUP BY 1, 2)
alerts:
  many: {from: counted, when: n = 3, key: bucket, trigger: realtime, to: {topic: dispatch}}
"""


@pytest.fixture
def world(tmp_path: Path) -> Iterator[CommandedWorld]:
    with Broker() as broker:
        one = CommandedWorld(broker.bootstrap_servers, tmp_path, STAGES)
        yield one
        if is_running(one.home):
            one.command("stop", "city")


def write(world: CommandedWorld, version: int, counted: str) -> None:
    text = f"{SOURCES}version: {version}\n{STAGES}"
    world.file.write_text(text.replace("count(*)", counted))


def run_until(world: CommandedWorld, alerts: int, **counts: int) -> list[str]:
    """Run until so many alerts have arrived, and the status has counted them; their ids."""
    assert world.run("--detach").returncode == 0
    wait_for("the alerts are there", lambda: len(ids(world)) >= alerts, COMMAND_S)
    wait_for("they are counted", lambda: world.status()["alerts"] == {"many": counts})
    with urlopen(f"{world.status()['address']}/metrics") as answer:
        metrics = answer.read().decode()
    for outcome, count in counts.items():
        assert f'alerts_total{{alert="many",outcome="{outcome}",pipeline="city"}} {float(count)}' in metrics
    run = world.status()
    assert (run["notes"], run["error"]) == ([], None)
    assert world.command("stop", "city").returncode == 0
    return ids(world)


def ids(world: CommandedWorld) -> list[str]:
    return [json.loads(value)["id"] for value in read_arrow("dispatch", world.servers).column("value").to_pylist()]


def realtime_checkpoints(world: CommandedWorld) -> list[str]:
    return sorted(one.name for one in (world.home.folder / "checkpoints").glob("*.realtime-*"))


def test_a_changed_count_is_refused_and_a_new_version_counts_from_the_beginning(
    peer_jars: str | None, world: CommandedWorld
) -> None:
    if peer_jars is None:
        pytest.skip("the jars of Spark's own Kafka connector cannot be fetched: they need Maven")
    world.send(range(6))
    first = run_until(world, 2, fired=2, repeated=0)
    assert realtime_checkpoints(world) == ["outlet-alert-many.realtime-v1"]

    write(world, 1, "CAST(sum(id - id + 1) AS INT)")
    refused = world.run()

    assert refused.returncode == 3, refused.stderr
    assert "outlet-alert-many: aggregation" in refused.stderr

    write(world, 2, "CAST(sum(id - id + 1) AS INT)")
    both = run_until(world, 4, fired=0, repeated=2)

    assert realtime_checkpoints(world) == ["outlet-alert-many.realtime-v1", "outlet-alert-many.realtime-v2"]
    assert sorted(both) == sorted([*first, *first]), "the same alerts, by the same ids"
