"""`catchment example`: applications with their own broker, pipeline, event generator and actuator."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import Annotated

import typer

from catchment.cli.extras import need_extra
from catchment.cli.failure import MISTAKEN, CommandError
from catchment.cli.output import print_table

app = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
_LIST = "list"
_DEFAULT_RATE = 1000.0


@app.command("example")
def example(
    name: Annotated[str, typer.Argument(metavar="NAME", help=f"The example; `{_LIST}` lists them.")],
    seconds: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=1,
            help="Stop after this time, check that everything adds up, and exit with 1 if not.",
        ),
    ] = None,
    rate: Annotated[float, typer.Option(metavar="N", min=0.1, help="Events a second.")] = _DEFAULT_RATE,
    port: Annotated[
        int | None,
        typer.Option(
            metavar="PORT",
            min=1,
            max=65535,
            help="Where the broker listens.",
            show_default="9092 if that is free, else another",
        ),
    ] = None,
    keep: Annotated[
        Path | None,
        typer.Option(
            metavar="DIRECTORY",
            help="Keep all files here, and continue from them the next time.",
            show_default="a temporary one, deleted at the end",
        ),
    ] = None,
) -> None:
    """Run an example application with its own broker, event generator and pipeline.

    A board shows its results and whether every event is accounted for. `catchment example list` names the applications.
    """
    from catchment.applications.catalogue import TITLES

    if name == _LIST:
        print_table(["name", "what it does"], list(TITLES.items()))
        return
    if name not in TITLES:
        raise CommandError(f"there is no example {name}", f"There are {', '.join(TITLES)}.", exit_code=MISTAKEN)
    need_extra("catchment example", "pipelines")
    from rich.console import Console

    from catchment.applications.running.show import show

    # Exit by an exception, so that the child processes are stopped.
    signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        code = show(name, seconds=seconds, rate=rate, port=port, folder=keep, console=Console())
    except KeyboardInterrupt:
        # Without a time, the user ends the run. With one, an interrupted run has checked nothing.
        code = 0 if seconds is None else 130
    raise typer.Exit(code)
