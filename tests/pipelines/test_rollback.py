"""`catchment pipeline rollback` goes back to what readers have seen, and reports what happens to the version that they leave."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.pipelines.stores.boards import board, cells, hour, rows
from typer.testing import CliRunner, Result

from catchment.cli.app import app
from catchment.pipelines.stores.store_opening import open_store

FILE = """
pipeline: city
version: 3
sources:
  reports: {topic: reports, schema: "district string, at timestamp", event_time: at, lateness: 20 seconds}
stages:
  board: {from: reports, mode: update, key: district, sql: SELECT district FROM reports}
sinks:
  - {from: board, store: "sqlite:///city.db", table: board}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A pipeline whose table has three versions. The second was cut short, and readers see the third."""
    made = tmp_path / "city.yaml"
    made.write_text(FILE)
    with board(f"sqlite:///{tmp_path}/city.db", 1, 2, 3) as store:
        for version in (1, 2, 3):
            store.write(rows([("north", 5, version)]), f"query {version}", 0, version)
            store.write_batch_layer(rows([("north", 1, 10 * version)]), version)
        store.switch(1, hour(3))
        store.switch(3, hour(3))
    return made


def rollback(file: Path, *options: str) -> Result:
    return CliRunner().invoke(app, ["pipeline", "rollback", str(file), "board", *options])


def test_a_version_that_was_never_shown_is_skipped(file: Path) -> None:
    result = rollback(file, "--json")
    assert json.loads(result.stdout) == [{"table": "board", "version": 1, "left": 3}]
    with open_store(f"sqlite:///{file.parent}/city.db", "board") as store:
        assert cells(store.read()) == [("north", 1, 10), ("north", 5, 1)]

    result = rollback(file)
    assert result.exit_code == 1
    assert "table board has no version before 1 that was ever shown" in result.stderr


def test_it_says_what_shows_the_version_again_that_was_left(file: Path) -> None:
    result = rollback(file)
    assert "board: a backfill shows version 3 again, or a later version that starts from scratch" in result.stderr
