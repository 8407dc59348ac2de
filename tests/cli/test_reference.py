"""The reference page and the help name every command and option."""

from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.conftest import Run

from catchment.cli.app import COMMANDS, app
from catchment.cli.broker import make_parser
from catchment.cli.reference import commands_below, render_reference, value_of

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
            first, *others = parameter.opts
            value = "" if parameter.is_flag else " " + value_of(parameter).replace("|", "\\|")
            assert f"`{first}{value}`" in section
            assert all(f"`{name}`" in section for name in others)
            assert parameter.help, f"{path} {parameter.opts} has no help"


@pytest.mark.parametrize(("path", "command"), ALL_COMMANDS, ids=[" ".join(path) for path, _ in ALL_COMMANDS])
def test_every_option_with_a_value_says_of_which_kind_or_unit_it_is(path: list[str], command: Any) -> None:
    assert [option.opts for option in command.params if takes_value(option) and not value_of(option)] == []


def takes_value(parameter: Any) -> bool:
    return parameter.param_type_name == "option" and not parameter.is_flag


def test_every_command_that_speaks_to_a_cluster_prints_json_when_asked() -> None:
    options = {" ".join(path): {name for one in command.params for name in one.opts} for path, command in ALL_COMMANDS}

    assert [path for path, names in options.items() if "--bootstrap-server" in names and "--json" not in names] == []


def test_the_options_of_the_broker_are_on_the_page() -> None:
    section = PAGE.read_text(encoding="utf-8").split("## catchment broker\n")[1].split("\n## ")[0]
    names = [name for action in make_parser()._actions for name in action.option_strings if action.dest != "help"]

    assert names == ["--config", "--set"]
    assert "`--config FILE`" in section
    assert "`--set KEY=VALUE`" in section


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
