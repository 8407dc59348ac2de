"""The reference page and the help name every command and option."""

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
from tests.cli.conftest import Run, Start

from catchment.cli.app import COMMANDS, app
from catchment.cli.broker.foreground import make_parser
from catchment.cli.help.examples import EXAMPLES
from catchment.cli.help.reference import commands_below, render_reference, value_of
from catchment.cli.profile.files import Profile, save_profile

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
ROOT: Any = typer.main.get_command(app)
ALL_COMMANDS = list(commands_below(ROOT, ["catchment"]))


def test_the_page_is_what_the_commands_say_now() -> None:
    assert PAGE.read_text(encoding="utf-8") == render_reference(), (
        "python -m catchment.cli.help.reference > docs/reference/cli.md"
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


def test_the_fast_parser_of_the_broker_knows_the_options_of_its_help() -> None:
    fast = {name for action in make_parser()._actions for name in action.option_strings}
    (shown,) = [command for path, command in ALL_COMMANDS if path == ["catchment", "broker"]]

    assert fast == {name for parameter in shown.params for name in parameter.opts}


def test_the_help_of_the_broker_looks_like_that_of_any_command(start: Start) -> None:
    output, _ = start("broker", "--help", COLUMNS="100").communicate(timeout=60)

    assert b"Usage: catchment broker [OPTIONS]" in output
    assert "╭─ Options".encode() in output
    assert b"Examples" in output


def test_the_help_names_every_command(run: Run) -> None:
    text = run("--help").stdout

    assert all(f" {name} " in text for name in COMMANDS)
    assert all(f"─ {entry.panel} ─" in text for entry in COMMANDS.values())


def test_the_list_of_commands_and_the_version_load_no_command() -> None:
    code = "import sys; from catchment.cli import main\n"
    code += "try: main()\nexcept SystemExit: pass\n"
    code += f"print(*[name for name in {['confluent_kafka', *{entry.module for entry in COMMANDS.values()}]} if name in sys.modules])"
    for arguments in (["--help"], ["--version"]):
        done = subprocess.run([sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True)
        assert done.stdout.splitlines()[-1] == ""


@pytest.mark.parametrize(("path", "command"), ALL_COMMANDS, ids=[" ".join(path) for path, _ in ALL_COMMANDS])
def test_every_command_has_examples_that_it_understands(path: list[str], command: Any) -> None:
    examples = EXAMPLES[" ".join(path[1:])]

    assert any(example.startswith(" ".join(path)) for example in examples)
    for example in examples:
        for words in commands_in(example):
            # Raises if an option does not exist, a value is of the wrong kind, or an argument is missing.
            ROOT.make_context("catchment", words[1:2], resilient_parsing=True)
            own_path, own = next(one for one in ALL_COMMANDS if one[0] == words[: len(one[0])])
            own.make_context(own_path[-1], words[len(own_path) :])


def test_no_example_is_left_of_a_command_that_is_gone() -> None:
    assert EXAMPLES.keys() - {""} == {" ".join(path[1:]) for path, _ in ALL_COMMANDS}
    assert all(commands_in(example) for example in EXAMPLES[""])


def commands_in(example: str) -> list[list[str]]:
    """The words of each `catchment` command in a line of a shell."""
    found = []
    for part in [*example.split(" | "), *re.findall(r"\$\(([^)]*)\)", example)]:
        words = shlex.split(part, comments=True) if "catchment " in part else []
        if words[:1] == ["catchment"]:
            found.append(words)
    return found


@pytest.mark.parametrize(("path", "command"), ALL_COMMANDS, ids=[" ".join(path) for path, _ in ALL_COMMANDS])
def test_the_help_shows_defaults_and_no_type_of_a_flag_or_an_argument(run: Run, path: list[str], command: Any) -> None:
    text = run(*path[1:], "--help").stdout

    assert "<bool>" not in text
    assert "<list" not in text
    assert "<str>" not in text
    assert "Examples" in text
    for parameter in command.params:
        assert parameter.show_default is not False, f"{path} {parameter.opts} hides its default"


@pytest.mark.parametrize("path", [path[1:] for path, _ in ALL_COMMANDS], ids=" ".join)
def test_every_command_has_help(run: Run, path: list[str]) -> None:
    result = run(*path, "--help")

    assert result.exit_code == 0
    assert "Usage: catchment" in result.stdout


def test_a_mistyped_command_gets_a_suggestion(run: Run) -> None:
    result = run("topci")

    assert result.exit_code == 2
    assert "Did you mean 'topic'?" in result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_a_shell_gets_its_completion(start: Start, shell: str) -> None:
    script, _ = start(_CATCHMENT_COMPLETE=f"source_{shell}").communicate(timeout=60)
    assert b"_CATCHMENT_COMPLETE=complete_" + shell.encode() in script


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("catchment to", {"topic"}),
        ("catchment topic tr", {"trim"}),
        ("catchment topic trim --bef", {"--before"}),
        ("catchment topic list --profile p", {"prod", "probe"}),
        ("catchment profile use pr", {"prod", "probe"}),
    ],
)
def test_commands_options_and_profiles_are_completed(start: Start, typed: str, expected: set[str]) -> None:
    for name in ("prod", "probe", "local"):
        save_profile(Profile(name, "127.0.0.1:1", {}))
    words = typed.split()
    environment = {"COMP_WORDS": typed, "COMP_CWORD": str(len(words) - 1), "_CATCHMENT_COMPLETE": "complete_bash"}
    output, errors = start(**environment).communicate(timeout=60)
    assert set(output.decode().split()) == expected, errors


def test_the_version_is_printed(run: Run) -> None:
    assert run("--version").stdout.startswith("catchment 0.")
