"""`catchment lake`, for people and for scripts."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.pipelines.lakes.lake_world import all_types, expected, numbers, put, stage
from typer.testing import CliRunner, Result

from catchment.cli.app import app
from catchment.pipelines.lakes import Lake, open_lake

MakeLake = Callable[[], Lake]


def _run(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["lake", *map(str, arguments)], prog_name="catchment")


def test_a_query_sees_all_rows_of_the_table_lake(make_lake: MakeLake) -> None:
    for batch_id in range(3):
        put(make_lake(), numbers(batch_id), "board", batch_id)

    result = _run("sql", make_lake().location, "SELECT count(*) AS rows, max(number) AS last FROM lake")

    assert result.stdout.splitlines() == ["rows\tlast", f"36\t{max(expected(range(3)))}"]


def test_every_type_is_printed_as_json(tmp_path: Path) -> None:
    put(open_lake(str(tmp_path)), all_types(), "board", 0)

    first, _, third = json.loads(_run("sql", tmp_path, "FROM lake", "--json").stdout)

    assert first["at"] == "2026-03-01T12:00:00.123456+00:00"
    assert (first["price"], third["single"], third["bytes"]) == ("-1.50", "inf", "AP8=")
    assert third["struct"] == {"code": 7, "at": "2026-03-01T12:00:00.123456+00:00"}
    assert third["map"] == {"k": 1, "l": None}


def test_an_old_version_is_queried(tmp_path: Path) -> None:
    lake = open_lake(str(tmp_path))
    put(lake, numbers(0), "board", 0)
    put(lake, numbers(1), "board", 1)

    assert _run("sql", tmp_path, "SELECT count(*) n FROM lake", "--version", 1).stdout.splitlines() == ["n", "12"]


def test_a_wrong_query_is_explained(make_lake: MakeLake) -> None:
    put(make_lake(), numbers(0), "board", 0)

    result = _run("sql", make_lake().location, "SELECT nothing FROM lake")

    assert result.exit_code == 1
    assert 'Referenced column "nothing" not found' in result.stderr


def test_a_lake_is_described(make_lake: MakeLake) -> None:
    put(make_lake(), numbers(0), "board", 0)

    facts = json.loads(_run("describe", make_lake().location, "--json").stdout)

    assert (facts["rows"], facts["files"], facts["partition_by"]) == (12, 4, ["district"])
    assert facts["columns"] == {"batch": "int64", "number": "int64", "district": "string"}
    assert facts["bytes"] > 0
    shown = _run("describe", make_lake().location).stdout
    assert f"format\t{facts['format']}" in shown
    assert "columns\tbatch int64, number int64, district string" in shown


def test_optimize_and_vacuum_say_what_they_did(tmp_path: Path) -> None:
    lake = open_lake(str(tmp_path))
    for batch_id in range(3):
        put(lake, numbers(batch_id), "board", batch_id)
    stage(lake, numbers(3), "board", 3)

    done = json.loads(_run("optimize", tmp_path, "--json").stdout)
    kept = json.loads(_run("vacuum", tmp_path, "--older-than", 1, "--json").stdout)

    assert done == {"files_compacted": 3, "files_written": 1}
    assert kept == {"removed": [], "would_remove": []}
    assert "0 files became 0" in _run("optimize", tmp_path).stderr
    assert "would remove 0 files" in _run("vacuum", tmp_path, "--dry-run").stderr


@pytest.mark.parametrize("command", [("describe",), ("optimize",), ("vacuum",), ("sql", "FROM lake")])
def test_a_path_without_a_lake_is_reported(tmp_path: Path, command: tuple[str, ...]) -> None:
    result = _run(command[0], tmp_path / "nothing", *command[1:])

    assert result.exit_code == 1
    assert f"there is no lake at {tmp_path / 'nothing'}" in result.stderr


def test_an_address_that_no_lake_has_is_reported() -> None:
    result = _run("describe", "foo://bucket/lake")

    assert result.exit_code == 2
    assert "no lake is known by an address that starts with 'foo'" in result.stderr


def test_plain_parquet_is_not_compacted(tmp_path: Path) -> None:
    put(open_lake(str(tmp_path), kind="parquet"), numbers(0), "board", 0)

    result = _run("optimize", tmp_path)

    assert result.exit_code == 1
    assert "plain Parquet, which is not compacted" in result.stderr
