"""The reference page of the command line, written from the commands themselves.

`python -m catchment.cli.help.reference > docs/reference/cli.md` writes it; a test compares the two.
"""

import sys
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any

import typer

from catchment.cli.app import app
from catchment.cli.help.examples import EXAMPLES
from catchment.cli.options import BOOTSTRAP_VARIABLE, DEFAULT_BOOTSTRAP_SERVERS
from catchment.cli.profile.files import PROFILE_VARIABLE

_HEAD = f"""# The command line

One command, `catchment`. `catchment --help` lists its commands, and `--help` after a command shows its options, their defaults and
examples. `catchment --install-completion` lets bash, zsh and fish complete commands and options.

## Which cluster

The commands that work with a cluster (`topic`, `produce`, `consume`, `group`, `transaction`, `quota`, `cluster`, `quarantine`) speak
only the Kafka protocol, so they serve Apache Kafka as well. The brokers are those of the first that is given:

1. `--bootstrap-server` (`-b`)
2. `--profile`
3. `{BOOTSTRAP_VARIABLE}` in the environment
4. the profile that `{PROFILE_VARIABLE}` in the environment names
5. the profile that `catchment profile use` or `create` made the current one
6. `{DEFAULT_BOOTSTRAP_SERVERS}`

A profile holds brokers and [client settings](client.md), for TLS and SASL for example. It is a properties file that only its owner
may read, in `$XDG_CONFIG_HOME/catchment/profiles` (else `~/.config/catchment/profiles`); other Kafka clients can read it too. Its
settings go only to its own brokers: where 1 or 3 names others, the profile is not used, unless `--profile` stands beside
`--bootstrap-server`. `--client-config` overrides the settings of a profile, and `--client-setting` (`-X`) overrides both. Pipelines
do not use profiles: their files name their brokers.

## Output and exit status

Results go to standard output, everything else to standard error. `--json` prints results for scripts; tables turn into tab-separated
lines in a pipe. `CATCHMENT_TRACEBACK=1` shows a traceback where a failure is a bug of ours. What deletes asks first on a terminal; `--yes`
skips the question. The exit status:

| | |
|---|---|
| 0 | Success. |
| 1 | Something failed. |
| 2 | The command line, a setting or a pipeline's file is invalid, or the extra that the command needs is not installed. |
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
        examples = EXAMPLES.get(" ".join(path[1:]), ())
        shown = "\n".join(["```", *examples, "```", ""])
        sections += [(command.help or "").strip() + "\n", shown, _table("", list(_rows(command)))]
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


def _table(title: str, rows: list[Row]) -> str:
    if not rows:
        return ""
    lines = [f"| {names} | {default} | {text} |" for names, default, text in rows]
    head = [title, ""] if title else []
    return "\n".join([*head, "| | default | |", "|---|---|---|", *lines, ""])


if __name__ == "__main__":
    sys.stdout.write(render_reference())
