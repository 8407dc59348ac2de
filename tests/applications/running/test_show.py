"""What is said under the board and at the end: commands that work, and nothing that was not compared."""

from __future__ import annotations

import shlex
from pathlib import Path

import pyarrow
import pytest
from tests.pipelines.lakes.lake_world import put
from typer.testing import CliRunner

from catchment.applications.catalogue import TITLES
from catchment.applications.running.layout import lay_out
from catchment.applications.running.processes import BrokerChild
from catchment.applications.running.show import hint, verdict
from catchment.cli.app import app
from catchment.pipelines.lakes import open_lake


def test_the_hint_names_the_answers_and_the_for_ever_store_by_commands_that_work(tmp_path: Path) -> None:
    layout = lay_out("emergency", tmp_path / "a folder")
    consume, describe = hint(layout, BrokerChild(tmp_path, 9093)).split(" · ")
    assert consume == "catchment consume dispatch -b 127.0.0.1:9093"
    assert hint(layout, BrokerChild(tmp_path, 9092)).startswith("catchment consume dispatch ·")
    assert layout.lake is not None
    put(open_lake(str(layout.lake)), pyarrow.table({"id": ["a"]}), "clean", 0)
    done = CliRunner().invoke(app, shlex.split(describe)[1:], prog_name="catchment")
    assert done.exit_code == 0, done.output
    assert "rows\t1" in done.stdout


@pytest.mark.parametrize("name", TITLES)
def test_the_verdict_names_what_was_compared(tmp_path: Path, name: str) -> None:
    layout = lay_out(name, tmp_path)
    said = str(verdict([], layout))
    has_check = (Path(__file__).parents[3] / "src" / "catchment" / "applications" / name / "checking.py").exists()
    assert said.startswith("it adds up: ledger, log")
    assert ("real-time store" in said) == has_check
    assert ("for-ever store" in said) == (layout.lake is not None)


def test_the_main_job_compares_both_stores(tmp_path: Path) -> None:
    said = str(verdict([], lay_out("emergency", tmp_path)))
    assert said == "it adds up: ledger, log, real-time store and for-ever store agree"


def test_what_does_not_add_up_is_named(tmp_path: Path) -> None:
    found = [f"difference {number}" for number in range(25)]
    said = str(verdict(found, lay_out("emergency", tmp_path)))
    assert "difference 19" in said
    assert said.endswith("and 5 more")
