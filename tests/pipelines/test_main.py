"""`python city.py VERB` is the command `catchment pipeline VERB city.py`, for every verb, and without one `run`; here without Spark."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.pipelines.emergency import PYTHON, write_emergency

from catchment.pipelines.driving.supervision.run_file import RunLock, write_run
from catchment.pipelines.home import Home

_MAIN = """
if __name__ == "__main__":
    city.main()
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return write_emergency(tmp_path, suffix=".py", text=PYTHON + _MAIN)


def _main(file: Path, *arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name != "HOOK"}
    environment = {**kept, "CATCHMENT_PIPELINES_HOME": str(file.parent / "home"), **variables}
    # By a relative path, as people type it.
    command = [sys.executable, file.name, *arguments]
    return subprocess.run(command, cwd=file.parent, env=environment, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize(
    ("arguments", "code", "said"),
    [
        (["graph"], 0, "⬡ clean"),
        (["status"], 1, "pipeline emergency never ran in"),
        (["stop"], 1, "pipeline emergency never ran in"),
        (["test"], 2, "has no tests"),
        (["run"], 2, "the environment variable HOOK is not set"),
        (["prune", "--dry-run"], 2, "the environment variable HOOK is not set"),
        (["reset", "--dry-run"], 2, "the environment variable HOOK is not set"),
        (["rollback", "board"], 2, "the environment variable HOOK is not set"),
        (["backfill", "board"], 2, "the environment variable HOOK is not set"),
        (["--help"], 0, "backfill"),
        ([], 2, "the environment variable HOOK is not set"),
        (["--available-now"], 2, "the environment variable HOOK is not set"),
    ],
)
def test_every_verb_is_about_this_file(file: Path, arguments: list[str], code: int, said: str) -> None:
    done = _main(file, *arguments)
    assert done.returncode == code, done.stderr
    assert said in done.stdout + done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["rollback", "board"], "table board has no version"),
        (["backfill", "board"], "pipeline emergency never ran in"),
    ],
)
def test_a_pipeline_that_has_not_run_is_reported(file: Path, arguments: list[str], said: str) -> None:
    done = _main(file, *arguments, HOOK="http://127.0.0.1:1/")
    assert done.returncode == 1, done.stderr
    assert said in done.stderr


def test_a_plan_of_a_file_with_mistakes_is_refused(tmp_path: Path) -> None:
    file = write_emergency(tmp_path, suffix=".py", text=PYTHON.replace("parallelism=4", "parallelism=0") + _MAIN)
    done = _main(file, "plan")
    assert done.returncode == 2
    assert f"{file}:3: parallelism" in done.stderr


def test_the_status_is_that_of_the_run(file: Path) -> None:
    home = Home(file.parent / "home", "emergency")
    lock = RunLock(home)
    try:
        write_run(home, {"pipeline": "emergency", "version": 1, "state": "running", "pid": os.getpid()})
        done = _main(file, "status", "--json")
    finally:
        lock.close()
    assert json.loads(done.stdout)["pid"] == os.getpid()


def test_a_file_with_mistakes_can_still_be_asked_for_its_status(tmp_path: Path) -> None:
    file = write_emergency(tmp_path, suffix=".py", text=PYTHON.replace("parallelism=4", "parallelism=0") + _MAIN)
    assert "pipeline emergency never ran" in _main(file, "status").stderr
