"""Broken records of every kind are quarantined as they came, with their reason; nothing else is lost, and no query stops for them.

CATCHMENT_POISON_RECORDS sets how many records there are, of which one in a hundred is broken; a run with CATCHMENT_POISON_SEED is
repeated.
"""

from __future__ import annotations

import json
import os
import sqlite3
import sys
import time
from random import Random
from typing import TYPE_CHECKING, Any, Final

import pytest
from tests.pipelines.city import City, Report
from tests.pipelines.pressure.poison import repair_command
from tests.pipelines.pressure.poisoned_reports import PoisonedReports, poisoned_pipeline
from typer.testing import CliRunner

from catchment.cli.app import app
from catchment.cli.options import BOOTSTRAP_VARIABLE
from catchment.cli.pipeline.quarantine import _repaired
from catchment.client.cluster import Cluster
from catchment.pipelines import quarantine

if TYPE_CHECKING:
    from catchment.pipelines.execution.run import Run

RECORDS: Final = int(os.environ.get("CATCHMENT_POISON_RECORDS", 13_000))
SEED: Final = int(os.environ.get("CATCHMENT_POISON_SEED", Random().getrandbits(32)))


class Interrupted(Exception):
    """As if a user pressed Ctrl-C."""


@pytest.mark.timeout(1500 + RECORDS // 100)
def test_broken_records_are_quarantined_with_their_reason_and_come_back_repaired(
    city: City, monkeypatch: pytest.MonkeyPatch
) -> None:
    sys.stdout.write(f"CATCHMENT_POISON_SEED={SEED}\n")
    sent = PoisonedReports(RECORDS, SEED)
    sent.send(city)
    pipeline = poisoned_pipeline(city)
    begun_s = time.monotonic()
    done = city.drain(pipeline)
    sys.stdout.write(f"{RECORDS:,} records took {time.monotonic() - begun_s:.1f} s\n")

    check_quarantine(city, sent)
    check_counts(done, sent)
    check_right(city, sorted(sent.right))
    assert sorted(json.loads(row["value"])["id"] for row in city.rows(f"{city.name}.late")) == sorted(sent.late)

    interrupt_a_replay(city, monkeypatch, after=len(sent.repaired) // 2)
    said = replay(city)
    assert 0 < said["sent_before"] < len(sent.repaired)
    assert said["sent"] + said["sent_before"] == len(sent.repaired)
    assert len(said["left"]) == len(sent.broken) - len(sent.repaired)
    assert replay(city)["sent"] == 0
    city.drain(pipeline)

    check_quarantine(city, sent)
    check_right(city, sorted([*sent.right, *sent.repaired]))


def test_a_broken_record_of_a_table_leaves_its_row_as_it_was_and_is_quarantined_once(city: City) -> None:
    pipeline = city.pipeline(crews_on_error="quarantine")
    broken = {1: (b"harbour", b'{"district": "harbour", "crew": "two"}'), 2: (b"hills", b"no crew at all")}
    city.send_crew("harbour", 3)
    for key, value in broken.values():
        city.send_crew_record(key.decode(), value)
    city.send([Report("a", 1), Report("b", 1, "hills")], seconds=1)
    city.drain(pipeline)
    assert city.board() == {("harbour", 0): (1, 3), ("hills", 0): (1, None)}

    city.send_crew("hills", 7)
    city.send([Report("c", 2, "hills")], seconds=2)
    city.drain(pipeline)
    assert city.board() == {("harbour", 0): (1, 3), ("hills", 0): (2, 7)}

    rows = city.rows(f"{city.name}.quarantine")
    assert {int(row["headers"]["catchment.offset"]): (row["key"], row["value"]) for row in rows} == broken
    assert len(rows) == len(broken)
    for row in rows:
        facts = row["headers"]
        assert facts["catchment.error"].startswith(b"does not decode: ")
        assert (facts["catchment.stage"], facts["catchment.topic"]) == (b"crews-input", city.crews.encode())


def check_quarantine(city: City, sent: PoisonedReports) -> None:
    """Each broken record is there once, unchanged, with its own headers, its offset and its reason."""
    rows = city.rows(f"{city.name}.quarantine")
    found = {(int(row["headers"]["catchment.partition"]), int(row["headers"]["catchment.offset"])): row for row in rows}
    assert len(rows) == len(found)
    assert found.keys() == sent.broken.keys()
    for place, one in sent.broken.items():
        row = found[place]
        ours = {
            name.removeprefix("catchment."): fact
            for name, fact in row["headers"].items()
            if name.startswith("catchment.")
        }
        assert ours.pop("error").decode().startswith(one.reason), one
        assert ours.pop("batch").isdigit()
        stage = {"topic": city.reports.encode(), "pipeline": city.name.encode(), "stage": b"clean"}
        assert ours == one.facts | stage, one.name
        theirs = {name: value for name, value in row["headers"].items() if not name.startswith("catchment.")}
        expected = {name: value for name, value in one.headers.items() if not name.startswith("catchment.")}
        assert (row["key"], row["value"], theirs) == (one.key, one.value, expected), one.name


def check_counts(run: Run, sent: PoisonedReports) -> None:
    """What is counted for `stop_above`: rows, and not what does not decode."""
    progress = run.queries["clean"].recentProgress
    if progress[0]["batchId"] > 0:
        # Spark has forgotten the first of very many batches.
        return
    counts = [one["observedMetrics"]["checks"] for one in progress if one["numInputRows"]]
    no_rows = [one for one in sent.broken.values() if one.reason.startswith(("does not decode", "has no value"))]
    wrong = [one for one in sent.broken.values() if one.name in ("wrong kind", "no kind", "nothing")]
    assert sum(one["rows"] for one in counts) == RECORDS - len(no_rows)
    assert sum(one["check0"] for one in counts) == len(wrong)


def check_right(city: City, expected: list[str]) -> None:
    """The topic behind the source stage, the real-time store and the lake have each of the others once."""
    assert sorted(row["id"] for row in city.values(f"{city.name}.clean")) == expected
    with sqlite3.connect(city.folder / "city.db") as database:
        assert sorted(name for (name,) in database.execute("SELECT id FROM reports")) == expected
    assert city.lake_ids() == expected


def replay(city: City) -> dict[str, Any]:
    """What the command says that it did."""
    runner = CliRunner(env={BOOTSTRAP_VARIABLE: city.servers})
    arguments = ["quarantine", "replay", city.name, "--with", repair_command(), "--execute", "--json"]
    done = runner.invoke(app, arguments)
    assert done.exit_code == 0, done.output
    said: dict[str, Any] = json.loads(done.stdout)
    return said


def interrupt_a_replay(city: City, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """One that has several transactions behind it, and has repaired more records than it has sent."""
    repaired = 0

    def repair(one: quarantine.Quarantined) -> bytes | None:
        nonlocal repaired
        value = _repaired(repair_command(), one)
        repaired += value is not None
        if repaired > after:
            raise Interrupted
        return value

    records = quarantine.read_quarantine(city.name, city.servers)
    with Cluster(city.servers) as cluster, monkeypatch.context() as patched:
        patched.setattr(quarantine, "_AT_ONCE", 5)
        with pytest.raises(Interrupted):
            quarantine.replay(cluster, city.name, city.servers, records, repair)
