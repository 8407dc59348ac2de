"""Commands that need an extra: they report what to install if a package is missing, and all pipeline commands fail in the same way.

A package is looked up, not imported, and only when a command runs: `--help` needs no extra.
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
"""The import names of each extra's packages. The drivers of databases are checked by the store that needs them."""
WITHOUT_EXTRA: Final = frozenset({"pipeline status", "pipeline stop", "example"})
"""Commands that work in part without their extra, and check for it themselves."""


def with_extra(command: Any, extra: str, path: str) -> Any:
    """Make a command, or every command of a group, check for an extra first. Typer keeps its classes private."""
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
    """Raise an error with the pip command if a package of the extra is missing."""
    for package in _PACKAGES[extra]:
        if find_spec(package) is None:
            message = f"{command_path} needs {package}: pip install 'catchment-streaming[{extra}]'"
            raise CommandError(message, exit_code=MISTAKEN)


def _explained(invoke: Any, context: Any) -> Any:
    """The result of the command, or a `CommandError` with the same exit code in every command."""
    from catchment.cli.wire import client_errors_as_failures
    from catchment.pipelines.errors import Mistakes, Refusal

    try:
        with client_errors_as_failures(refusals=(Refusal,)):
            return invoke(context)
    except Mistakes as mistakes:
        for mistake in mistakes.found:
            print_note(f"error: {mistake}")
        raise typer.Exit(MISTAKEN) from mistakes
