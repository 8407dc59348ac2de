"""A burst of a hundred times the usual rate, and a store that stalls: bounded batches, nothing lost, and a status that says it.

CATCHMENT_STALL_SECONDS sets how long the store stalls; a longer stall has a longer burst in it.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Final

import psycopg
import pytest
from tests.pipelines.driving.commanded_world import COMMAND_S, TOPIC, CommandedWorld
from tests.pipelines.driving.supervised import wait_for
from tests.pipelines.pressure.feeder import Feeder
from tests.pipelines.pressure.watch import Watch
from tests.pipelines.stores.servers import PostgresServer

from catchment import Broker
from catchment.pipelines.driving.supervision.run_file import is_running
from catchment.pipelines.lakes.lake_opening import open_lake
from catchment.spark.source.batch_pace import FIRST_ROWS

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

STALL_S: Final = float(os.environ.get("CATCHMENT_STALL_SECONDS", 8))
USUAL: Final = 400
BURST: Final = int(100 * USUAL * max(3.0, STALL_S / 4))
"""Events of the burst: a hundred times the usual rate, for a quarter of the stall."""
MOST_MORE_BYTES: Final = 1 << 30
OUTLET: Final = "outlet-store"
STAGES: Final = """
stages:
  clean: {{from: reports}}
sinks:
  - {{name: store, from: clean, store: "{store}", table: reports}}
  - {{name: lake, from: clean, lake: lake}}
"""


class PressedWorld(CommandedWorld):
    """One whose rows are kept in PostgreSQL and in a lake."""

    def __init__(self, servers: str, folder: Path, postgresql: PostgresServer) -> None:
        self.postgresql = postgresql
        self.database = postgresql.new_database()
        super().__init__(servers, folder, STAGES.format(store=self.database))

    def stored(self) -> list[int]:
        """The ids in the store, sorted."""
        with psycopg.connect(self.database) as connection:
            return [number for (number,) in connection.execute("SELECT id FROM reports ORDER BY id")]

    def kept(self) -> list[int]:
        """The ids in the lake, sorted."""
        ids: list[int] = open_lake(f"{self.folder}/lake").read_arrow().column("id").to_pylist()
        return sorted(ids)


@pytest.fixture
def world(tmp_path: Path) -> Iterator[PressedWorld]:
    with ExitStack() as stack:
        broker = stack.enter_context(Broker())
        one = PressedWorld(broker.bootstrap_servers, tmp_path, stack.enter_context(PostgresServer()))
        yield one
        if is_running(one.home):
            one.command("stop", "city")


@pytest.mark.timeout(1500 + 10 * STALL_S)
def test_a_burst_while_the_store_stalls_waits_in_the_log_and_is_caught_up_with(world: PressedWorld) -> None:
    assert world.run("--detach").returncode == 0
    with Feeder(world.servers, TOPIC, USUAL) as feeder, Watch(world.status(), world.home) as watch:
        wait_for("rows are stored", lambda: watch.now.query(OUTLET)["rows"] > USUAL, COMMAND_S)
        wait_for("it runs", lambda: watch.now.status["state"] == "running", COMMAND_S)
        before = watch.now
        assert before.status["faults"] == []
        with world.postgresql.frozen():
            stall_in_a_burst(feeder, watch)
        thawed_s = time.monotonic()
        feeder.stop()
        wait_for("it has caught up", lambda: has_caught_up(watch), COMMAND_S)
        assert watch.now.status["faults"] == []
    assert world.command("stop", "city").returncode == 0

    assert world.stored() == list(range(feeder.sent))
    assert world.kept() == list(range(feeder.sent))
    assert any(one.status["state"] == "catching up" for one in watch.moments if one.at_s > thawed_s)
    check_batches(watch)
    jvm_bytes = max(one.jvm_bytes for one in watch.moments)
    python_bytes = max(one.python_bytes for one in watch.moments)
    sys.stdout.write(
        f"{feeder.sent:,} events; before the burst and at most: JVM {before.jvm_bytes >> 20} and {jvm_bytes >> 20} MiB, "
        f"Python {before.python_bytes >> 20} and {python_bytes >> 20} MiB; "
        f"caught up {watch.now.at_s - thawed_s:.1f} s after the stall\n"
    )
    assert jvm_bytes + python_bytes < before.jvm_bytes + before.python_bytes + MOST_MORE_BYTES


def stall_in_a_burst(feeder: Feeder, watch: Watch) -> None:
    """The store does not answer while a burst comes. The others go on, and the status says what is waited for."""
    begun_s = time.monotonic()
    stored, sent = watch.now.query(OUTLET)["rows"], feeder.sent
    feeder.rate *= 100
    wait_for("the burst is in the log", lambda: feeder.sent >= sent + BURST, COMMAND_S)
    feeder.rate = USUAL
    wait_for(
        "the status names the store", lambda: watch.now.status["state"].startswith("waiting for store postgresql://")
    )
    wait_for("the store's lag has grown", lambda: watch.now.query(OUTLET)["lag"] >= BURST, COMMAND_S)
    wait_for("the lake has the burst", lambda: watch.now.query("outlet-lake")["rows"] >= sent + BURST, COMMAND_S)
    wait_for("the stall is over", lambda: time.monotonic() > begun_s + STALL_S, STALL_S + 1)
    assert watch.now.query(OUTLET)["rows"] <= stored + USUAL * STALL_S
    assert watch.now.query("outlet-lake")["waits_for"] is None
    if STALL_S > 40:
        [fault] = [one for one in watch.now.status["faults"] if one.startswith(OUTLET)]
        assert "has been under way for" in fault
        assert "writing to store postgresql://" in fault


def has_caught_up(watch: Watch) -> bool:
    return watch.now.status["state"] == "running" and all(one["lag"] == 0 for one in watch.now.status["queries"])


def check_batches(watch: Watch) -> None:
    """No batch is larger than the time for it allows: twice the largest before it, or what the first may have."""
    for query in watch.now.status["queries"]:
        largest = FIRST_ROWS
        for rows in watch.batches(query["name"]):
            assert rows <= largest * 1.01, query["name"]
            largest = max(largest, 2 * rows)
    assert sum(rows > USUAL * 10 for rows in watch.batches("clean")) > 1
