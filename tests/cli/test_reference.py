"""The reference page and the help name every command and option."""

from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.conftest import Run

from catchment.cli.app import COMMANDS, app
from catchment.cli.broker import make_parser
from catchment.cli.reference import commands_below, render_reference

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "cli.md"
ROOT: Any = typer.main.get_command(app)
ALL_COMMANDS = list(commands_below(ROOT, ["catchment"]))


def test_the_page_is_what_the_commands_say_now() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_reference(), (
        "python -m catchment.cli.reference > docs/reference/cli.md"
    )


@pytest.mark.parametrize(("path", "command"), ALL_COMMANDS, ids=[" ".join(path) for path, _ in ALL_COMMANDS])
def test_every_option_is_on_the_page_and_says_what_it_does(path: list[str], command: Any) -> None:
    section = PAGE.read_text(encoding="utf-8").split(f"## {' '.join(path)}\n")[1].split("\n## ")[0]

    for parameter in command.params:
        if parameter.param_type_name == "option" and parameter.name != "help":
            assert all(f"`{name}`" in section for name in parameter.opts)
            assert parameter.help, f"{path} {parameter.opts} has no help"


def test_the_options_of_the_broker_are_on_the_page() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## catchment broker\n")[1].split("\n## ")[0]
    names = [name for action in make_parser()._actions for name in action.option_strings if action.dest != "help"]

    assert names == ["--config", "--set"]
    assert all(f"`{name}`" in section for name in names)


def test_the_help_names_every_command(run: Run) -> None:
    text = run("--help").stdout

    assert all(name in text for name in COMMANDS)


@pytest.mark.parametrize("path", [path[1:] for path, _ in ALL_COMMANDS if path[1] != "broker"], ids=" ".join)
def test_every_command_has_help(run: Run, path: list[str]) -> None:
    result = run(*path, "--help")

    assert result.exit_code == 0
    assert "Usage: catchment" in result.stdout


def test_a_mistyped_command_is_met_with_a_proposal(run: Run) -> None:
    result = run("topci")

    assert result.exit_code == 2
    assert "Did you mean 'topic'?" in result.stderr


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version").stdout.startswith("catchment 0.")
