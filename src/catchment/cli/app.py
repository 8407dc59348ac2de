"""The tree of commands, and the one place where a failure becomes a message and an exit status.

A command's module is imported when the command is asked for: `catchment --version` need not load a Kafka client, nor
`catchment up` the benchmarks.
"""

import importlib
import os
import sys
from importlib.metadata import version
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from catchment.cli.extras import with_extra
from catchment.cli.failure import CommandError, print_failure, report_bug


class _Place(NamedTuple):
    module: str
    is_group: bool = False
    extra: str | None = None
    """What has to be installed beside the package itself."""


COMMANDS = {
    "up": _Place("catchment.cli.up"),
    "broker": _Place("catchment.cli.broker_command"),
    "topic": _Place("catchment.cli.topic", is_group=True),
    "produce": _Place("catchment.cli.produce"),
    "consume": _Place("catchment.cli.consume"),
    "group": _Place("catchment.cli.group", is_group=True),
    "transaction": _Place("catchment.cli.transaction", is_group=True),
    "quota": _Place("catchment.cli.quota", is_group=True),
    "log": _Place("catchment.cli.log", is_group=True),
    "pipeline": _Place("catchment.cli.pipeline", is_group=True, extra="pipelines"),
    "quarantine": _Place("catchment.cli.quarantine", is_group=True, extra="pipelines"),
    "lake": _Place("catchment.cli.lake", is_group=True, extra="pipelines"),
    "spark": _Place("catchment.cli.spark", is_group=True, extra="spark"),
    "example": _Place("catchment.cli.example", extra="pipelines"),
    "doctor": _Place("catchment.cli.doctor"),
    "bench": _Place("catchment.cli.bench", is_group=True),
}


class CommandTree(TyperGroup):
    """Loads commands on demand and reports their failures. Typer keeps its context class private, hence `Any`."""

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in self.commands and cmd_name in COMMANDS:
            place = COMMANDS[cmd_name]
            command_app: typer.Typer = importlib.import_module(place.module).app
            build = typer.main.get_group if place.is_group else typer.main.get_command
            command = build(command_app)
            command.name = cmd_name
            self.commands[cmd_name] = command if place.extra is None else with_extra(command, place.extra)
        elif cmd_name not in COMMANDS:
            # Typer proposes a similar name among the commands that it knows.
            for name in COMMANDS:
                self.get_command(ctx, name)
        return self.commands.get(cmd_name)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CommandError as error:
            print_failure(error)
            raise typer.Exit(error.exit_code) from error
        except BrokenPipeError as error:
            # Whoever read our output has had enough, which is no news to them. The descriptor is replaced so that the
            # interpreter's last flush does not meet the closed pipe again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from error
        except OSError as error:
            print_failure(CommandError(str(error)))
            raise typer.Exit(1) from error


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"catchment {version('catchment-streaming')}")
        raise typer.Exit


app = typer.Typer(
    cls=CommandTree,
    name="catchment",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


@app.callback()
def catchment(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A Kafka-protocol streaming log in one command: run a broker, and work with any Kafka cluster."""


def run() -> None:
    sys.excepthook = report_bug
    # Calling the command, not the Typer object: that one would put its own hook in place of ours.
    typer.main.get_command(app)(prog_name="catchment")
