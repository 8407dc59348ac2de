"""Events go from the log through processing into both stores, and each of them is in exactly one place."""

from __future__ import annotations

import re
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from tests.pipelines.city import City, Report

from catchment.pipelines.execution.run import Run
from catchment.pipelines.stores.sql.sqlite import SqliteStore

GUIDE = Path(__file__).parents[2] / "docs" / "guide" / "pipelines.md"


def test_events_reach_both_stores_and_broken_late_and_duplicate_ones_are_counted_apart(city: City) -> None:
    pipeline = city.pipeline()
    city.send_crew("harbour", 3)
    good = [Report(str(number), number / 10, "harbour" if number % 2 else "hills") for number in range(100)]
    broken = [b"{bad", Report("party", 1, kind="party").value(), Report("nowhere", 1, district=None).value()]
    city.send([*good, good[5], *broken], seconds=10)
    city.drain(pipeline)
    later = [Report(str(number), number / 10) for number in range(400, 500)]
    city.send(later, seconds=50)
    city.drain(pipeline)
    city.send([Report("late", 1), Report("just in time", 48), later[50]], seconds=51)
    city.send_crew("harbour", 9)
    city.drain(pipeline)

    assert not [one for one in open_files() if one.startswith(f"{city.folder}/city.db")], "the store is closed"
    kept = [*good, *later, Report("just in time", 48)]
    assert sorted(row["id"] for row in city.values(f"{city.name}.clean")) == sorted(one.id for one in kept)
    assert city.lake_ids() == sorted(one.id for one in kept)
    assert city.board() == {
        ("harbour", 0): (50, 3),
        ("hills", 0): (50, None),
        ("harbour", 40): (101, 9),
    }
    quarantined = {row["value"]: row["headers"] for row in city.rows(f"{city.name}.quarantine")}
    assert quarantined.keys() == set(broken)
    assert quarantined[broken[0]]["catchment.error"].startswith(b"does not decode")
    assert quarantined[broken[1]]["catchment.error"] == b"failed check: kind IN ('fire', 'flood', 'quake')"
    assert quarantined[broken[1]]["catchment.topic"] == city.reports.encode()
    [late] = city.rows(f"{city.name}.late")
    assert late["value"] == Report("late", 1).value()
    assert int(late["headers"]["catchment.batch"]) > int(quarantined[broken[0]]["catchment.batch"]) == 0
    of_records, _, of_rows = GUIDE.read_text(encoding="utf-8").partition("### Rows that a store cannot take")
    assert of_rows, "they have other headers, and a section of their own"
    documented = set(re.findall(r"`(catchment\.\w+)`", of_records))
    assert {frozenset(one) for one in (*quarantined.values(), late["headers"])} == {frozenset(documented)}


@pytest.mark.parametrize("waiting", ["outlet-lake", "outlet-board"])
def test_a_store_that_does_not_answer_holds_up_no_pipeline_that_ends(
    city: City, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    closed: list[SqliteStore] = []
    monkeypatch.setattr(SqliteStore, "close", lambda store: closed.append(store))
    run = Run(city.context(city.pipeline()))
    run.build()

    with run.context.store_calls.under_way(waiting):
        run.stop()

    assert len(closed) == (waiting != "outlet-board"), "to close it would wait for the call"


def open_files() -> list[str]:
    """The paths of what this process has open."""
    found = []
    for descriptor in Path("/proc/self/fd").iterdir():
        # The one that lists the folder is gone by now.
        with suppress(FileNotFoundError):
            found.append(str(descriptor.readlink()))
    return found
