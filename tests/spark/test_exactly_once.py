"""A streaming job that maps and counts a topic, killed at every point with its workers and its broker: each row once.

Set CATCHMENT_SPARK_KILLS for a longer run, such as 300.
"""

from __future__ import annotations

import os
from pathlib import Path
from random import Random
from typing import Final

import pytest
from tests.seeds import seed_from
from tests.spark.soak.campaign import Campaign, campaign
from tests.spark.soak.killable_servers import KINDS, Kind, killable_server
from tests.spark.soak.plan import MAPPED, Plan

from catchment.client.cluster import Cluster
from catchment.client.offsets import LATEST

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

SHORT: Final = 3
KILLS: Final = int(os.environ.get("CATCHMENT_SPARK_KILLS", SHORT))
FIRST: Final = (
    "between commits: jvm",
    "before commit: broker",
    "after commit: driver",
)
"""A short run has these, and on Kafka, which starts slowly, the first."""
ALL: Final = (
    *FIRST,
    "python",
    "broker",
    "between commits: broker",
    "jvm",
    "driver",
    "committer",
    "driver and broker",
    "before commit: driver",
    "before commit: committer",
    "before commit: driver and broker",
    "between commits: driver",
    "between commits: committer",
    "after commit: broker",
    "after commit: committer",
    "after commit: jvm",
)


def kills(kind: Kind, random: Random) -> list[str]:
    count = SHORT // 2 if kind == "kafka" and KILLS == SHORT else KILLS
    chosen = [*FIRST[:count], *random.choices(ALL, k=max(0, count - len(FIRST)))]
    random.shuffle(chosen)
    return chosen


@pytest.mark.timeout(1500 + 120 * KILLS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_row_is_written_once_whichever_process_is_killed(kind: Kind, tmp_path: Path) -> None:
    seed = seed_from("CATCHMENT_SPARK_SEED")
    random = Random(seed)
    with killable_server(kind, tmp_path) as server:
        plan = Plan("catchment", server.bootstrap_servers, str(tmp_path))
        with campaign(server, plan, random) as running:
            for kill in kills(kind, random):
                running.strike(kill)
            running.wait_for_growth()
            assert running.finish() == [], f"CATCHMENT_SPARK_SEED={seed}, kills {dict(running.kills)}"


@pytest.mark.timeout(1500)
@pytest.mark.parametrize(("format_name", "anomalies"), [("catchment", set()), ("kafka", {"duplicate"})])
def test_a_driver_dies_between_the_tasks_of_a_batch(
    format_name: str, anomalies: set[str], tmp_path: Path, peer_jars: str | None
) -> None:
    """What one task had written is there twice with Spark's own sink, and once with ours: the checkers can tell."""
    if format_name == "kafka" and peer_jars is None:
        pytest.skip("the jars of Spark's own Kafka connector cannot be fetched: they need Maven")
    with killable_server("catchment", tmp_path) as server:
        jars = peer_jars if format_name == "kafka" else None
        plan = Plan(format_name, server.bootstrap_servers, str(tmp_path), jars, holds=True)
        plan.hold_path.touch()
        with campaign(server, plan, Random(1)) as running:
            wait_for_rows_of_the_first_task(running)
            running.driver.kill()
            plan.hold_path.unlink()
            running.wait_for_growth()
            assert {anomaly.name for anomaly in running.finish()} == anomalies


def wait_for_rows_of_the_first_task(running: Campaign) -> None:
    with Cluster(running.driver.plan.bootstrap_servers) as cluster:
        place = (MAPPED, 0)
        running.wait(lambda: cluster.list_offsets([place], LATEST)[place].offset > 0, "no task writes")
