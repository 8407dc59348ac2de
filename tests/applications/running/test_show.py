"""The hints below the board and the summary at the end: commands and paths that exist, and nothing that was not compared."""

from __future__ import annotations

import shlex
from pathlib import Path

import pyarrow
import pytest
from tests.pipelines.lakes.lake_world import put
from typer.testing import CliRunner

from catchment.applications.catalogue import TITLES, simulation_of
from catchment.applications.running.balance import Totals
from catchment.applications.running.layout import lay_out
from catchment.applications.running.processes import BrokerChild
from catchment.applications.running.show import hint, summary, verdict
from catchment.applications.running.snapshot import Response, Snapshot
from catchment.cli.app import app
from catchment.pipelines.lakes import open_lake


def test_the_hint_names_the_answers_and_the_for_ever_store_by_commands_that_work(tmp_path: Path) -> None:
    layout = lay_out("emergency", tmp_path / "a folder")
    consume, describe = hint(layout, BrokerChild(tmp_path, 9093)).split(" · ")
    assert consume == "catchment consume dispatch -b 127.0.0.1:9093"
    assert hint(layout, BrokerChild(tmp_path, 9092)).startswith("catchment consume dispatch ·")
    assert hint(layout, BrokerChild(tmp_path, 9092), has_lake=False) == "catchment consume dispatch"
    assert layout.lake is not None
    put(open_lake(str(layout.lake)), pyarrow.table({"id": ["a"]}), "clean", 0)
    done = CliRunner().invoke(app, shlex.split(describe)[1:], prog_name="catchment")
    assert done.exit_code == 0, done.output
    assert "rows\t1" in done.stdout


@pytest.mark.parametrize("name", TITLES)
def test_the_verdict_names_what_was_compared(tmp_path: Path, name: str) -> None:
    layout = lay_out(name, tmp_path)
    said = str(verdict([], layout))
    has_check = hasattr(simulation_of(name), "differences")
    assert said.startswith("it adds up: ledger, log")
    assert ("real-time store" in said) == has_check
    assert ("for-ever store" in said) == (layout.lake is not None)


def test_the_main_job_compares_both_stores(tmp_path: Path) -> None:
    said = str(verdict([], lay_out("emergency", tmp_path)))
    assert said == "it adds up: ledger, log, real-time store and for-ever store agree"


def test_differences_are_named(tmp_path: Path) -> None:
    found = [f"difference {number}" for number in range(25)]
    said = str(verdict(found, lay_out("emergency", tmp_path)))
    assert "difference 19" in said
    assert said.endswith("and 5 more")


def test_the_summary_says_what_was_stored_and_for_how_long_it_ran() -> None:
    responses = (Response("burst", "Harbour", "a crew goes"), Response("burst", "Market", None))
    totals = Totals(arrived=10, stored=9, on_the_way=1)
    said = str(summary(Snapshot("reports", 72.4, totals=totals, lake_rows=9, responses=responses), "emergency", None))
    assert said.splitlines() == [
        "emergency ran for 1 min 12 s",
        "in 10 = stored 9 + duplicate 0 + late 0 + rejected 0 + on the way 1  ✓",
        "stored: 0 rows in the real-time store, 9 in the for-ever store",
        "alerts: 2, acted on: 1",
        "the files were temporary and are deleted; --keep DIRECTORY keeps them",
    ]


def test_the_summary_names_files_that_are_kept_and_how_to_continue() -> None:
    said = str(summary(Snapshot("reports", 2.0), "logs", Path("a folder")))
    assert said.splitlines()[-2:] == [
        "files: a folder",
        "to continue from them: catchment example logs --keep 'a folder'",
    ]
