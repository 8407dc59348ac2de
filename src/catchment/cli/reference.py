"""The reference page of the command line, written from the commands themselves.

`python -m catchment.cli.reference > docs/reference/cli.md` writes it; a test compares the two.
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import typer

from catchment.cli.app import app
from catchment.cli.broker import DESCRIPTION, make_parser
from catchment.cli.options import BOOTSTRAP_VARIABLE

_HEAD = f"""# The command line

One command, `catchment`. The commands that work with a cluster (`topic`, `produce`, `consume`, `group`, `transaction`, `quota`,
`quarantine`) speak only the Kafka protocol, so they serve Apache Kafka as well. `{BOOTSTRAP_VARIABLE}` names the cluster once
for all of them.

Results go to standard output, everything else to standard error. `--json` prints results for scripts; tables turn into tab-separated
lines in a pipe. `CATCHMENT_TRACEBACK=1` shows a traceback where a failure is a bug of ours. The exit status:

| | |
|---|---|
| 0 | All went well. |
| 1 | Something failed. |
| 2 | The command line, a setting or a pipeline's file makes no sense, or the extra that the command needs is not installed. |
| 3 | A pipeline's state, or what its stores and lakes hold, does not allow it. |
| 4, 5 | From `pipeline run` alone: [what they mean](../guide/running-pipelines.md#how-it-fails). |
| 130 | The command was interrupted before it was done. |

This page is rendered from the commands: `make docs` writes it.
"""

Row = tuple[str, str, str]


def render_reference() -> str:
    """The whole page."""
    root: Any = typer.main.get_command(app)
    sections = [_HEAD, _table("`catchment` alone takes:", list(_rows(root)))]
    for path, command in commands_below(root, ["catchment"]):
        sections.append(f"## {' '.join(path)}\n")
        if path == ["catchment", "broker"]:
            sections += [DESCRIPTION + "\n", _table("", list(_parser_rows(make_parser())))]
        else:
            sections += [(command.help or "").strip() + "\n", _table("", list(_rows(command)))]
    return "\n".join(sections)


def commands_below(group: Any, path: list[str]) -> Iterator[tuple[list[str], Any]]:
    """Every command below a group, in the order of the help."""
    context = typer.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if hasattr(command, "list_commands"):
            yield from commands_below(command, [*path, name])
        else:
            yield [*path, name], command


def _rows(command: Any) -> Iterator[Row]:
    """Arguments and options of a command: how each is written, its default, and what it does."""
    for parameter in command.params:
        help_text = (getattr(parameter, "help", None) or "").strip()
        if parameter.param_type_name == "argument":
            name = parameter.metavar or parameter.name.upper()
            yield f"`{name}{' …' if parameter.nargs == -1 else ''}`", "", help_text
        elif parameter.name != "help":
            names = _spelled(
                [*parameter.opts, *parameter.secondary_opts], "" if parameter.is_flag else value_of(parameter)
            )
            variable = f" Also `{parameter.envvar}` in the environment." if parameter.envvar else ""
            yield names, _default(parameter), help_text + variable


def value_of(option: Any) -> str:
    """What stands behind an option: its unit or kind, or what there is to choose from."""
    choices = option.type_descriptor.choices
    return option.metavar or "|".join(choice.value for choice in choices)


def _spelled(names: Sequence[str], value: str) -> str:
    """All names of an option, the first with its value. A bar would end the cell of a table."""
    first, *others = names
    with_value = f"{first} {value}".strip().replace("|", "\\|")
    return ", ".join(f"`{name}`" for name in (with_value, *others))


def _default(parameter: Any) -> str:
    if isinstance(parameter.show_default, str):
        return parameter.show_default
    value = parameter.default
    if isinstance(value, Enum):
        value = value.value
    return "" if value in (None, False, ()) or value == [] else f"`{value}`"


def _parser_rows(parser: argparse.ArgumentParser) -> Iterator[Row]:
    for action in parser._actions:
        if action.dest != "help":
            yield _spelled(action.option_strings, str(action.metavar or "")), "", action.help or ""


def _table(title: str, rows: list[Row]) -> str:
    if not rows:
        return ""
    lines = [f"| {names} | {default} | {text} |" for names, default, text in rows]
    head = [title, ""] if title else []
    return "\n".join([*head, "| | default | |", "|---|---|---|", *lines, ""])


if __name__ == "__main__":
    sys.stdout.write(render_reference())
