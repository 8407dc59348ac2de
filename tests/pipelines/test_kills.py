"""The main job under kills: log, lake, stores and alerts add up whichever process is killed, and when.

Its board, a stage in update mode, is in SQLite, PostgreSQL and Redis. Beside it a stage in append mode gives each window once when it
is over, into a lake and into each of the stores, by a query that has the state and the sink in one.

Set CATCHMENT_PIPELINE_KILLS for a longer run, such as 300. CATCHMENT_PIPELINE_SEED repeats a run: a run prints its value.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from random import Random
from typing import Final

import pytest
from tests.pipelines.soak.campaign import Campaign, Kill
from tests.pipelines.soak.town import town
from tests.seeds import seed_from

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

FIRST: Final[tuple[Kill, ...]] = (("worker", "broker"), ("jvm", "postgresql", "redis"))
"""A short run has these."""
ALL: Final[tuple[Kill, ...]] = (
    *FIRST,
    ("postgresql",),
    ("jvm", "redis"),
    ("worker",),
    ("broker",),
    ("driver",),
    ("jvm",),
    ("supervisor",),
    ("redis",),
    ("driver", "postgresql"),
    ("driver", "supervisor"),
    ("postgresql", "redis"),
    ("jvm", "broker"),
    ("jvm", "driver", "supervisor", "broker", "postgresql", "redis"),
)
"""Victims in this order: without its supervisor or a server, there may be no driver to kill."""
KILLS: Final = int(os.environ.get("CATCHMENT_PIPELINE_KILLS", len(FIRST)))
SEED: Final = "CATCHMENT_PIPELINE_SEED"
IN_RECOVERY: Final = 0.3
REPORTED: Final = 0.3


def kill_at_random(running: Campaign, kill: Kill, random: Random) -> None:
    """Perhaps in the middle of a recovery, or until the status reports it."""
    is_reported = kill in (("postgresql",), ("redis",)) and random.random() < REPORTED
    running.kill(kill, is_reported=is_reported, in_recovery=not is_reported and random.random() < IN_RECOVERY)


@pytest.mark.timeout(1500 + 120 * KILLS)
def test_log_lake_stores_and_alerts_add_up_whichever_process_is_killed(tmp_path: Path) -> None:
    seed = seed_from(SEED)
    random = Random(seed)
    first, rest = list(FIRST), random.choices(ALL, k=KILLS - len(FIRST))
    random.shuffle(first)
    with town(tmp_path, random) as made:
        running = Campaign(made, random)
        for kill in first:
            running.kill(kill)
        for kill in rest:
            kill_at_random(running, kill, random)
        anomalies = running.finish()
        summary = f"{SEED}={seed}, kills {dict(running.kills)}, runs {running.runs}, {running.sums}"
        sys.stdout.write(f"{summary}\n")
        assert anomalies == [], summary
        assert min(running.sums[one] for one in ("stored", "duplicate", "late", "rejected", "closed")) > 0, summary
