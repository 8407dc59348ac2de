"""What every command's `--help` has in common, applied where a command is loaded.

Options with a value show what kind it is of, and flags show nothing. Examples follow the options. A command that talks to a
cluster takes `--profile`.
"""

import re
from typing import Any, Final

import typer

from catchment.cli.help.examples import EXAMPLES
from catchment.cli.options import PROFILE_PARAMETER, is_bootstrap_option

_TAG: Final = re.compile(r"\[(?=[a-z#/@])")
_LINE_END: Final = re.compile(r"(?<!\n)\n(?!\n)")
HELP_OPTIONS: Final = ["--help", "-h"]


def style(command: Any, path: str) -> None:
    """Give a command, or a group with all commands in it, its examples. Typer keeps its classes private, hence `Any`."""
    below = getattr(command, "commands", None)
    if below is None:
        command.epilog = epilog(path)
        # A line of a docstring ends where the source is wide enough, not where a terminal is.
        command.help = _LINE_END.sub(" ", command.help or "")
        for index, parameter in enumerate(command.params):
            if is_bootstrap_option(parameter):
                command.params.insert(index + 1, PROFILE_PARAMETER)
                break
    else:
        for name, one in below.items():
            style(one, f"{path} {name}")
    without_types(command, typer.Context(command, help_option_names=HELP_OPTIONS))


def without_types(command: Any, context: Any) -> None:
    """Typer would show `<bool>` for a flag, and `<list[str]>` beside the name of an argument."""
    for parameter in command.get_params(context):
        if parameter.param_type_name == "argument" or parameter.is_flag:
            parameter.display_type_rich = _no_type


def _no_type(ctx: Any) -> str:
    return ""


def epilog(path: str) -> str:
    """The examples of a command as the end of its help; the help's own markup is escaped."""
    lines = "\n".join(EXAMPLES.get(path, ()))
    return "[bold]Examples[/bold]\n" + _TAG.sub(r"\\[", lines) if lines else ""
