"""The connector's jars: fetched once, whole, and with a reason where they are unavailable. A script stands in for Maven."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.bench.pretended_maven import install_maven
from typer.testing import CliRunner

from catchment.cli.app import app
from catchment.spark.launch.connector_jars import CONNECTOR, Artifact, JarsUnavailable, connector_jars, jars_directory

COPIES = """#!/bin/sh
echo "$@" >> "$FETCHES"
for argument in "$@"; do
  case "$argument" in
    -Dartifact=*) name=$(echo "${argument#*=}" | cut -d: -f2,3 | tr : -);;
    -DoutputDirectory=*) echo jar > "${argument#*=}/$name.jar";;
  esac
done
"""
FAILS = """#!/bin/sh
echo "Could not find artifact"
exit 1
"""


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "catchment" / "spark" / "jars"


def test_each_jar_is_fetched_once_without_its_dependencies(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetches = install_maven(tmp_path, monkeypatch, COPIES)
    fetched: list[Artifact] = []
    assert connector_jars(fetched.append) == connector_jars(fetched.append)
    assert fetched == list(CONNECTOR)
    commands = fetches.read_text().splitlines()
    assert len(commands) == len(CONNECTOR)
    assert all("dependency:copy -Dartifact=" in command for command in commands)
    assert sorted(path.name for path in cache.iterdir()) == sorted(one.file_name for one in CONNECTOR)


def test_a_failed_fetch_leaves_nothing_that_looks_whole(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_maven(tmp_path, monkeypatch, FAILS)
    with pytest.raises(JarsUnavailable, match=r"could not fetch .*spark-sql-kafka.*Could not find artifact"):
        connector_jars()
    assert list(cache.iterdir()) == []


def test_without_maven_the_error_says_what_to_install_or_where_to_put_the_jars(
    tmp_path: Path, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(JarsUnavailable) as refused:
        connector_jars()
    assert "apt install maven" in str(refused.value)
    assert str(cache) in str(refused.value)
    assert all(one.file_name in str(refused.value) for one in CONNECTOR)
    # Who follows the second advice needs no Maven.
    cache.mkdir(parents=True)
    for artifact in CONNECTOR:
        (jars_directory() / artifact.file_name).write_text("jar")
    assert [path.name for path in connector_jars()] == [one.file_name for one in CONNECTOR]


def test_the_command_prints_paths_for_people_scripts_and_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install_maven(tmp_path, monkeypatch, COPIES)
    plain = CliRunner().invoke(app, ["spark", "jars"])
    paths = plain.stdout.splitlines()
    assert plain.exit_code == 0
    assert all(Path(path).is_file() for path in paths)
    assert "fetching org.apache.kafka:kafka-clients" in plain.stderr
    assert json.loads(CliRunner().invoke(app, ["spark", "jars", "--json"]).stdout) == {"jars": paths}
    assert CliRunner().invoke(app, ["spark", "jars", "--joined"]).stdout == ",".join(paths) + "\n"


def test_the_command_fails_with_advice_where_there_is_no_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    refused = CliRunner().invoke(app, ["spark", "jars"])
    assert refused.exit_code == 1
    assert "Maven" in refused.stderr
    assert refused.stdout == ""
