"""The reference page of the command line, written from the commands themselves.

`python -m catchment.cli.reference > docs/reference/cli.md` writes it; a test compares the two.
"""

import argparse
import sys
from collections.abc import Iterator
from enum import Enum
from typing import Any

import typer

from catchment.cli.app import app
from catchment.cli.broker import DESCRIPTION, make_parser
from catchment.cli.options import BOOTSTRAP_VARIABLE

_HEAD = f"""# The command line

One command, `catchment`. The commands that work with a cluster (`topic`, `produce`, `consume`, `group`, `transaction`, `quota`) speak
only the Kafka protocol, so they serve Apache Kafka as well. `{BOOTSTRAP_VARIABLE}` names the cluster once for all of them.

Exit status: 0 if all went well, 1 if not, 2 if the command line, a setting or a pipeline's file makes no sense or the extra that a
command stands on is not installed, 3 if a pipeline's state, or what its stores and lakes hold, does not allow it, 130 if `produce` was
interrupted. Results go to standard output, everything else to standard error. `--json` prints
results for scripts; tables turn into tab-separated lines in a pipe. `CATCHMENT_TRACEBACK=1` shows a traceback where a failure is a bug
of ours.

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
            names = ", ".join(f"`{name}`" for name in [*parameter.opts, *parameter.secondary_opts])
            variable = f" Also `{parameter.envvar}` in the environment." if parameter.envvar else ""
            yield names, _default(parameter), help_text + variable


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
            yield ", ".join(f"`{name}`" for name in action.option_strings), "", action.help or ""


def _table(title: str, rows: list[Row]) -> str:
    if not rows:
        return ""
    lines = [f"| {names} | {default} | {text} |" for names, default, text in rows]
    head = [title, ""] if title else []
    return "\n".join([*head, "| | default | |", "|---|---|---|", *lines, ""])


if __name__ == "__main__":
    sys.stdout.write(render_reference())
