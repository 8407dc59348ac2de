"""Pipelines run by the command itself, with Spark and a broker: to the end, through kills, and stopped."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest
from tests.pipelines.alerts.servers import WebhookServer, serving
from tests.pipelines.driving.commanded_world import COMMAND_S, CommandedWorld
from tests.pipelines.driving.supervised import is_alive, wait_for

from catchment import Broker
from catchment.pipelines.driving.supervision.cleanup import processes_of
from catchment.pipelines.driving.supervision.run_file import is_running

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")
# Each test starts Spark more than once.
pytestmark = pytest.mark.timeout(1500)

STAGES: Final = """
stages:
  clean:
    from: reports
    checks: [{expect: id >= 0, stop_above: 10%}]
sinks:
  - {from: clean, store: "sqlite:///city.db", table: reports}
alerts:
  last: {from: clean, when: id = 99, key: id, to: {webhook: "${HOOK}"}}
"""


class World(CommandedWorld):
    """One whose rows are kept in SQLite."""

    def stored(self) -> list[int]:
        """The ids in the store, sorted."""
        with closing(sqlite3.connect(self.folder / "city.db")) as store:
            return sorted(number for (number,) in store.execute("SELECT id FROM reports"))


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> Iterator[WebhookServer]:
    server = WebhookServer()
    monkeypatch.setenv("HOOK", server.url)
    with serving(server):
        yield server


@pytest.fixture
def world(tmp_path: Path, hook: WebhookServer) -> Iterator[World]:
    with Broker() as broker:
        one = World(broker.bootstrap_servers, tmp_path, STAGES)
        yield one
        if is_running(one.home):
            one.command("stop", "city")


@pytest.fixture
def temporary() -> Iterator[Path]:
    """Not below the folder of the test, whose path is too long for sockets."""
    with tempfile.TemporaryDirectory() as folder:
        yield Path(folder)


def test_available_rows_are_processed_and_alerts_delivered_once_and_a_check_stops_the_next_run(
    world: World, hook: WebhookServer, temporary: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lineage = world.folder / "lineage.jsonl"
    # The third attempt comes one and a half seconds after the alert has fired: the end waits for it.
    hook.answers += [503, 503]
    world.send(range(100))
    world.send_broken(3)
    monkeypatch.setenv("TMPDIR", str(temporary))

    first = world.run("--available-now", "--json", "--lineage", lineage)

    assert first.returncode == 0, first.stderr
    ended = json.loads(first.stdout)
    assert (ended["state"], ended["error"], ended["faults"]) == ("stopped", None, [])
    assert {query["name"]: (query["rows"], query["state"]) for query in ended["queries"]} == {
        "clean": (103, "done"),
        "outlet-clean-store-reports": (100, "done"),
        "outlet-alert-last": (100, "done"),
    }
    assert hook.messages() == ["last: 99"] * 3
    assert (ended["alerts"]["last"]["fired"], ended["notifications"]["last.webhook-0"]["delivered"]) == (1, 1)
    assert world.stored() == list(range(100))
    assert ended["latency_ms"] is None, "what happened before the run is a catch-up"
    assert ended["sources"] == [
        {
            "source": "reports",
            "query": "clean",
            "in": 103,
            "stored": 100,
            "duplicate": 0,
            "late": 0,
            "rejected": 3,
            "dropped": 0,
        }
    ]
    assert not list(temporary.iterdir()), "no temporary file is left"
    events = [json.loads(line) for line in lineage.read_text().splitlines()]
    assert [one["eventType"] for one in events] == ["START"] * 3 + ["COMPLETE"] * 3
    assert ended["lineage_lost"] == 0
    assert not is_alive(ended["spark_pid"])

    world.send(range(-50, 0))
    second = world.run("--available-now", "--json")

    assert second.returncode == 4, second.stderr
    assert "50 of the last 50 rows fail the check id >= 0" in json.loads(second.stdout)["error"]
    assert world.stored() == list(range(100))


def test_a_detached_run_survives_kills_of_its_driver_and_ends_when_stopped(world: World) -> None:
    world.send(range(100))
    assert world.run("--detach").returncode == 0
    wait_for("the first rows are stored", lambda: _has(world, 100), COMMAND_S)
    before = world.status()

    os.kill(before["driver_pid"], signal.SIGKILL)
    world.send(range(100, 200))

    wait_for("the others are stored", lambda: _has(world, 200), COMMAND_S)
    wait_for("their latency is known", lambda: bool(world.status()["latency_ms"]), COMMAND_S)
    after = world.status()
    assert world.stored() == list(range(200))
    assert after["driver_starts"] == 2
    assert not is_alive(before["spark_pid"])
    assert world.command("stop", "city").returncode == 0
    assert list(processes_of(after["run_id"])) == []
    assert world.status()["exit_code"] == 0
    assert {query["state"] for query in world.status()["queries"]} == {"stopped"}
    assert "city: reports in " in (world.home.folder / "run.log").read_text()


def _has(world: World, rows: int) -> bool:
    try:
        return len(world.stored()) >= rows
    except sqlite3.OperationalError:
        # The table is made by the first batch.
        return False
