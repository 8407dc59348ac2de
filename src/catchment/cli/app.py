"""The tree of commands, and the one place where a failure becomes a message and an exit status.

A command's module is imported when the command runs or prints its help: `catchment --version` and the list of
commands need no Kafka client, and `catchment up` needs no benchmarks.
"""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.metadata import version
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperCommand, TyperGroup

from catchment.cli.extras import with_extra
from catchment.cli.failure import CommandError, print_failure, report_bug
from catchment.cli.help.style import HELP_OPTIONS, epilog, style, without_types

BROKERS = "Run a broker"
RECORDS = "Topics and records"
GROUPS = "Groups, transactions and quotas"
PIPELINES = "Pipelines on Spark"
INSPECT = "Inspect and measure"
SETTINGS = "Settings of this command"


class _Entry(NamedTuple):
    panel: str
    summary: str
    module: str
    """Where its `app` is; another name of the app follows a colon."""
    is_group: bool = False
    extra: str | None = None
    """What has to be installed beside the package itself."""


COMMANDS = {
    "up": _Entry(BROKERS, "Start a broker and show its traffic.", "catchment.cli.broker.commands:up_app"),
    "broker": _Entry(
        BROKERS, "Run one broker in the foreground, for scripts.", "catchment.cli.broker.commands:broker_app"
    ),
    "doctor": _Entry(BROKERS, "Check whether a broker can run on this machine.", "catchment.cli.broker.doctor"),
    "topic": _Entry(
        RECORDS, "Create, list, describe, alter, trim and delete topics.", "catchment.cli.topic.commands", is_group=True
    ),
    "produce": _Entry(RECORDS, "Send records to a topic.", "catchment.cli.records.produce"),
    "consume": _Entry(RECORDS, "Read records from a topic.", "catchment.cli.records.consume"),
    "group": _Entry(
        GROUPS,
        "List and describe consumer and share groups, show lag, reset offsets.",
        "catchment.cli.group.commands",
        is_group=True,
    ),
    "transaction": _Entry(
        GROUPS, "List, describe and abort transactions.", "catchment.cli.cluster.transactions", is_group=True
    ),
    "quota": _Entry(
        GROUPS,
        "List, set and remove quotas of users, clients and addresses.",
        "catchment.cli.cluster.quota",
        is_group=True,
    ),
    "pipeline": _Entry(
        PIPELINES,
        "Plan, run, stop and inspect pipelines.",
        "catchment.cli.pipeline.commands",
        is_group=True,
        extra="pipelines",
    ),
    "quarantine": _Entry(
        PIPELINES,
        "List, show and replay records that pipelines quarantined.",
        "catchment.cli.pipeline.quarantine",
        is_group=True,
        extra="arrow",
    ),
    "lake": _Entry(
        PIPELINES,
        "Describe, query, optimize and vacuum the tables of a lake.",
        "catchment.cli.pipeline.lake",
        is_group=True,
        extra="pipelines",
    ),
    "spark": _Entry(
        PIPELINES,
        "Fetch the jars of Spark's Kafka connector.",
        "catchment.cli.pipeline.spark",
        is_group=True,
        extra="spark",
    ),
    "example": _Entry(PIPELINES, "Run an example application.", "catchment.cli.pipeline.example", extra="pipelines"),
    "cluster": _Entry(
        INSPECT, "Show brokers, controller and features of a cluster.", "catchment.cli.cluster.info", is_group=True
    ),
    "log": _Entry(INSPECT, "Dump the segment files of a log.", "catchment.cli.log.dump", is_group=True),
    "bench": _Entry(
        INSPECT, "Measure Catchment and its peers on this machine.", "catchment.cli.bench.commands", is_group=True
    ),
    "profile": _Entry(
        SETTINGS, "Save the brokers and client settings of a cluster.", "catchment.cli.profile.commands", is_group=True
    ),
}


class CommandTree(TyperGroup):
    """Loads commands on demand and reports their failures. Typer keeps its context class private, hence `Any`."""

    _is_listing = False

    def list_commands(self, ctx: Any) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            # Typer suggests a similar name among these commands, and runs none of them.
            self.commands.update({name: _listed(name) for name in COMMANDS})
            return None
        if self._is_listing:
            return _listed(cmd_name)
        if cmd_name not in self.commands:
            self.commands[cmd_name] = _load(cmd_name, entry)
        return self.commands[cmd_name]

    def format_help(self, ctx: Any, formatter: Any) -> None:
        without_types(self, ctx)
        with self._listing():
            super().format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:
        with self._listing():
            return super().shell_complete(ctx, incomplete)

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except CommandError as error:
            print_failure(error)
            raise typer.Exit(error.exit_code) from error
        except BrokenPipeError as error:
            # The reader has closed the pipe, which is not an error. The descriptor is replaced so that the interpreter's
            # last flush does not fail on the closed pipe again.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(1) from error
        except OSError as error:
            print_failure(CommandError(str(error)))
            raise typer.Exit(1) from error

    @contextmanager
    def _listing(self) -> Iterator[None]:
        """While commands are listed, only their names and summaries are used, and none is imported."""
        self._is_listing = True
        try:
            yield
        finally:
            self._is_listing = False


def _listed(name: str) -> TyperCommand:
    """A command as a list of commands shows it: by its summary, without importing it."""
    return TyperCommand(name, help=COMMANDS[name].summary, rich_help_panel=COMMANDS[name].panel)


def _load(name: str, entry: _Entry) -> Any:
    module, _, attribute = entry.module.partition(":")
    command_app: typer.Typer = getattr(importlib.import_module(module), attribute or "app")
    command: Any = (typer.main.get_group if entry.is_group else typer.main.get_command)(command_app)
    command.name = name
    if entry.is_group:
        command.help = entry.summary
    style(command, name)
    return command if entry.extra is None else with_extra(command, entry.extra, name)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"catchment {version('catchment-streaming')}")
        raise typer.Exit


app = typer.Typer(
    cls=CommandTree,
    name="catchment",
    epilog=epilog(""),
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": HELP_OPTIONS},
)


@app.callback()
def catchment(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """A Kafka-protocol broker, a command line for any Kafka cluster, and pipelines on Spark."""


def run() -> None:
    sys.excepthook = report_bug
    # Call the command, not the Typer object, which would replace our exception hook.
    typer.main.get_command(app)(prog_name="catchment")
