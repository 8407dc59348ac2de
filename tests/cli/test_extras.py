"""Without its extra, every command that needs one says what to install, and its help is there all the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from catchment import Broker
from catchment.cli.app import COMMANDS, app
from catchment.cli.extras import _PACKAGES as _BROUGHT
from catchment.cli.extras import WITHOUT_EXTRA
from catchment.cli.failure import FAILED, MISTAKEN, REFUSED
from catchment.cli.help.reference import commands_below
from catchment.cli.options import BOOTSTRAP_VARIABLE
from catchment.pipelines.driving.exit_codes import ExitCode

_WITHOUT = """
import sys
sys.modules[{package!r}] = None
from catchment.cli import main
main()
"""


# Typer brings pydantic.
_PIPELINES = {*_BROUGHT["pipelines"]} - {"pydantic"}
_NEEDS_NONE = WITHOUT_EXTRA - {"example"}


def _commands() -> Iterator[tuple[list[str], Any]]:
    """Every command of an extra, by the words that call it."""
    root: Any = typer.main.get_command(app)
    for path, command in commands_below(root, []):
        if COMMANDS[path[0]].extra is not None and " ".join(path) not in _NEEDS_NONE:
            yield path, command


_FOUND = {" ".join(path): command for path, command in _commands()}


_PACKAGES = {
    "arrow": ["pyarrow", "numba"],
    "spark": ["pyspark", "pyarrow"],
    "pipelines": ["yaml", "pyspark", "deltalake", "pyarrow", "duckdb"],
}


@pytest.mark.parametrize(
    ("words", "package"),
    [(words, package) for words in _FOUND for package in _PACKAGES[str(COMMANDS[words.split()[0]].extra)]],
)
def test_a_command_whose_extra_is_missing_says_what_to_install(
    words: str, package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    extra = COMMANDS[words.split()[0]].extra
    names = ["x.yaml" for one in _FOUND[words].params if one.param_type_name == "argument" and one.required]
    arguments = ["emergency"] if words == "example" else names
    monkeypatch.setitem(sys.modules, package, None)

    result = CliRunner().invoke(app, [*words.split(), *arguments], prog_name="catchment")

    assert result.exit_code == 2, result.output
    assert result.stderr == f"error: catchment {words} needs {package}: pip install 'catchment-streaming[{extra}]'\n"


_BLOCKED = """
import sys
for package in {packages}:
    sys.modules[package] = None
from catchment.cli import main
main()
"""


@pytest.mark.parametrize(
    ("words", "packages"),
    [
        ("pipeline status", _PIPELINES),
        ("pipeline stop nothing", _PIPELINES),
        ("example list", _PIPELINES),
        ("quarantine list", _PIPELINES - {"pyarrow", "numpy", "numba"}),
        ("quarantine show nothing", _PIPELINES - {"pyarrow", "numpy", "numba"}),
    ],
)
def test_a_command_that_needs_no_spark_does_without_it(words: str, packages: set[str], tmp_path: Path) -> None:
    with Broker() as broker:
        environment = {
            **os.environ,
            BOOTSTRAP_VARIABLE: broker.bootstrap_servers,
            "XDG_STATE_HOME": str(tmp_path / "state"),
            "XDG_RUNTIME_DIR": str(tmp_path / "run"),
        }
        done = subprocess.run(
            [sys.executable, "-c", _BLOCKED.format(packages=sorted(packages)), *words.split()],
            capture_output=True,
            text=True,
            check=False,
            env=environment,
        )

    assert "pip install" not in done.stderr
    assert "Traceback" not in done.stderr
    assert "bug" not in done.stderr
    assert done.returncode == (0 if "nothing" not in words else 1), done.stderr


def test_the_status_of_a_pipeline_by_its_file_needs_what_reads_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "yaml", None)
    result = CliRunner().invoke(app, ["pipeline", "status", "city.yaml"], prog_name="catchment")
    assert result.exit_code == 2
    assert "the pipeline's file city.yaml needs yaml: pip install 'catchment-streaming[pipelines]'" in result.stderr


def test_the_pipeline_commands_are_among_the_checked_commands() -> None:
    verbs = {
        words.removeprefix("pipeline ") for words in _FOUND.keys() | WITHOUT_EXTRA if words.startswith("pipeline ")
    }
    assert verbs >= {"plan", "run", "status", "stop", "graph", "backfill", "rollback", "test", "prune", "reset"}
    assert {"example", "spark jars", "lake sql", "quarantine replay"} <= _FOUND.keys()


@pytest.mark.parametrize("words", ["pipeline graph", "lake describe", "example"])
def test_the_help_needs_no_extra(words: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert CliRunner().invoke(app, [*words.split(), "--help"], prog_name="catchment").exit_code == 0


def test_a_process_without_the_extra_shows_no_traceback() -> None:
    program = _WITHOUT.format(package="yaml")
    done = subprocess.run(
        [sys.executable, "-c", program, "pipeline", "graph", "city.yaml"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert done.stderr == "error: catchment pipeline graph needs yaml: pip install 'catchment-streaming[pipelines]'\n"


def test_the_commands_of_pipelines_end_with_the_codes_of_a_run() -> None:
    assert (FAILED, MISTAKEN, REFUSED) == (ExitCode.FAILED, ExitCode.CONFIGURATION, ExitCode.REFUSED)
