"""Commands that stand on an extra: they say what to install where a part of it is missing, and those of pipelines fail alike.

Whether a package is there is looked up without loading it, when a command is run: its help needs nothing.
"""

from importlib.util import find_spec
from typing import Any, Final

import typer

from catchment.cli.failure import MISTAKEN, CommandError
from catchment.cli.output import print_note

_ARROW: Final = ("pyarrow", "numpy", "numba")
_SPARK: Final = ("pyspark", "py4j", *_ARROW, "fastavro")
_PACKAGES: Final = {
    "arrow": _ARROW,
    "spark": _SPARK,
    "pipelines": (*_SPARK, "deltalake", "pydantic", "yaml", "pandas", "duckdb", "sqlglot"),
}
"""What each extra brings, by the name that it is imported by; the libraries of stores are asked for by the store that needs them."""
WITHOUT_EXTRA: Final = frozenset({"pipeline status", "pipeline stop", "example"})
"""Commands of an extra that can do something without it, and look for it themselves where they need it."""


def with_extra(command: Any, extra: str, path: str) -> Any:
    """A command, or a group with all commands in it, that first looks for an extra. Typer keeps its classes private."""
    for name, below in getattr(command, "commands", {}).items():
        with_extra(below, extra, f"{path} {name}")
    if not hasattr(command, "commands"):
        invoke = command.invoke

        def checked(context: Any) -> Any:
            if path not in WITHOUT_EXTRA:
                need_extra(context.command_path, extra)
            return invoke(context) if extra == "spark" else _explained(invoke, context)

        command.invoke = checked
    return command


def need_extra(command_path: str, extra: str) -> None:
    """Say what to install where it is missing."""
    for package in _PACKAGES[extra]:
        if find_spec(package) is None:
            message = f"{command_path} needs {package}: pip install 'catchment-streaming[{extra}]'"
            raise CommandError(message, exit_code=MISTAKEN)


def _explained(invoke: Any, context: Any) -> Any:
    """The command's own result, or its failure in words, with the same exit code in every command."""
    from catchment.cli.wire import client_errors_told
    from catchment.pipelines.errors import Mistakes, Refusal

    try:
        with client_errors_told(refusals=(Refusal,)):
            return invoke(context)
    except Mistakes as mistakes:
        for mistake in mistakes.found:
            print_note(f"error: {mistake}")
        raise typer.Exit(MISTAKEN) from mistakes
