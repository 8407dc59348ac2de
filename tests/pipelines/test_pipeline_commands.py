"""`catchment pipeline graph`, `plan` and `test`: what they print, and how they exit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pipelines.emergency import YAML, write_emergency
from typer.testing import CliRunner, Result

from catchment import Broker
from catchment.cli.app import app
from catchment.client.errors import ClientError, SettingsError
from catchment.pipelines.command_context import authors_mistakes
from catchment.pipelines.declaration import loading
from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.planning import Kept, Operator, Part, Refused, Signature
from catchment.pipelines.planning.comparing import Decision
from catchment.pipelines.planning.signature import Made
from catchment.pipelines.stores.store_errors import StoreRefused

_TIMEOUT_S = 290
_TEST = """\
tests:
  it holds:
    given: {reports: [{id: a, district: Harbour, kind: fire, at: 2026-01-01T00:00:01Z}]}
    expect: {clean: [{id: a}]}
  it does not:
    given: {reports: [{id: a, district: Harbour, kind: fire, at: 2026-01-01T00:00:01Z}]}
    expect: {clean: [{id: b}]}
"""


def _pipeline(*arguments: str | Path) -> Result:
    return CliRunner().invoke(app, ["pipeline", *map(str, arguments)])


def test_a_graph_is_drawn_printed_and_written(tmp_path: Path) -> None:
    file = write_emergency(tmp_path)
    assert "└─ ⬡ clean" in _pipeline("graph", file).stdout
    found = json.loads(_pipeline("graph", file, "--json").stdout)
    assert found["pipeline"] == "emergency"
    assert ["clean", "board"] in found["edges"]
    assert _pipeline("graph", file, "--svg", tmp_path / "city.svg").exit_code == 0
    assert (tmp_path / "city.svg").read_text().startswith("<svg ")


@pytest.mark.parametrize("verb", ["graph", "plan", "test", "run", "prune", "reset", "backfill", "rollback"])
def test_every_mistake_is_reported_before_spark_starts(tmp_path: Path, verb: str) -> None:
    file = write_emergency(tmp_path, text=YAML.replace("mode: update", "mood: x").replace("version: 1", "version: 0"))
    result = _pipeline(verb, file, *(["board"] if verb in ("backfill", "rollback") else []))
    assert result.exit_code == 2
    assert f"error: {file}:2: version:" in result.stderr
    assert f"error: {file}:17: stages.board.mood: unknown" in result.stderr


@pytest.mark.parametrize("verb", ["graph", "plan", "test", "run", "prune", "reset", "backfill", "rollback"])
@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Refused({"clean": Decision("refuse", 1, ("it counts otherwise",), "Raise the version.")}), ExitCode.REFUSED),
        (StoreRefused("the table has another key"), ExitCode.REFUSED),
        (SettingsError("there is no such stage"), ExitCode.CONFIGURATION),
        (ClientError("it never ran"), ExitCode.FAILED),
    ],
)
def test_a_failure_has_the_same_exit_code_in_every_verb(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, verb: str, error: ClientError, code: ExitCode
) -> None:
    def fail(file: Path) -> None:
        raise error

    monkeypatch.setattr(loading, "read_yaml", fail)
    result = _pipeline(verb, write_emergency(tmp_path), *(["board"] if verb in ("backfill", "rollback") else []))
    assert result.exit_code == code
    assert f"error: {error.message}" in result.stderr


def test_what_a_stages_code_raises_is_the_authors_mistake_and_what_is_refused_stays_so() -> None:
    with pytest.raises(SettingsError, match="ZeroDivisionError: division by zero"), authors_mistakes():
        raise ZeroDivisionError("division by zero")
    with pytest.raises(StoreRefused), authors_mistakes():
        raise StoreRefused("the table has another key")


def test_a_pipeline_without_tests_says_how_to_write_them(tmp_path: Path) -> None:
    result = _pipeline("test", write_emergency(tmp_path))
    assert result.exit_code == 2
    assert "has no tests" in result.stderr


def test_tests_without_names_are_a_mistake(tmp_path: Path) -> None:
    file = write_emergency(tmp_path, text=YAML + "tests: [one]\n")
    result = _pipeline("test", file)
    assert result.exit_code == 2
    assert f"error: {file}:33: tests: they are given by name, not as ['one']" in result.stderr


@pytest.mark.usefixtures("spark")
def test_tests_are_run_and_counted(tmp_path: Path) -> None:
    file = write_emergency(tmp_path, text=YAML + _TEST)
    result = _pipeline("test", file)
    assert result.exit_code == 1, result.output
    assert "✓ it holds" in result.stdout
    assert "✗ it does not" in result.stdout
    assert "1 test passed, 1 failed" in result.stdout
    only = _pipeline("test", file, "--only", "holds", "--json")
    assert only.exit_code == 0
    (outcome,) = json.loads(only.stdout)
    assert (outcome["test"], outcome["failure"]) == ("it holds", None)


def test_a_plan_shows_what_is_refused_and_what_is_missing(tmp_path: Path) -> None:
    with Broker() as broker:
        broker.create_topic("crews")
        _show_what_is_refused_and_missing(tmp_path, broker.bootstrap_servers)


def _show_what_is_refused_and_missing(tmp_path: Path, servers: str) -> None:
    """In a process of its own, because it has a Spark of its own."""
    file = write_emergency(tmp_path)
    home = tmp_path / "home"
    _keep_other_state(home)
    command = [sys.executable, "-m", "catchment.cli", "pipeline", "plan", str(file), "--home", str(home), "--json"]
    environment = {name: value for name, value in os.environ.items() if name != "HOOK"}
    done = subprocess.run(
        [*command, "--bootstrap-server", servers],
        capture_output=True,
        text=True,
        timeout=_TIMEOUT_S,
        env=environment,
        check=False,
    )
    assert done.returncode == 3, done.stderr
    plan = json.loads(done.stdout)
    assert plan["queries"]["clean"]["action"] == "refuse"
    assert "deduplication within the watermark: key number (int) is gone" in plan["queries"]["clean"]["reasons"]
    assert plan["queries"]["outlet-board-store-board"]["action"] == "new"
    assert plan["missing"] == [
        "the environment variable HOOK is not set",
        "the topic reports of sources.reports does not exist; `catchment topic create reports` creates it",
    ]
    assert "reports.clean" in plan["topics_to_make"]
    assert plan["unknown"] is None


def _keep_other_state(home: Path) -> None:
    """As if the pipeline had run with another deduplication."""
    key = Operator(kind="deduplication within the watermark", parts=(Part(name="key number", what="int"),))
    signature = Signature(kind="intake", reads=("reports",), state=(key,), event_time="at", lateness_ms=20_000)
    made = Made(checkpoint_version=1, pipeline_version=1, signature=signature)
    checkpoint = home / "emergency" / "checkpoints" / "clean-v1"
    checkpoint.mkdir(parents=True)
    (checkpoint / "metadata").write_text('{"id": "x"}')
    (home / "emergency" / "plan.json").write_text(
        Kept(pipeline="emergency", queries={"clean": (made,)}).model_dump_json()
    )
