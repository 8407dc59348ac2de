"""Options that several commands share, so that they are spelled and documented once."""

from pathlib import Path
from typing import Annotated

import typer

from catchment.cli.assignments import parse_assignment
from catchment.cli.failure import CommandError
from catchment.ports.properties_file import read_properties
from catchment.ports.settings import InvalidSetting

DEFAULT_BOOTSTRAP_SERVERS = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "CATCHMENT_BOOTSTRAP_SERVERS"

BootstrapServers = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar=BOOTSTRAP_VARIABLE,
        metavar="HOST:PORT[,…]",
        help="Where to reach the cluster: Catchment, or any Apache Kafka.",
    ),
]
ClientSettings = Annotated[
    list[str] | None,
    typer.Option(
        "--client-setting",
        "-X",
        metavar="KEY=VALUE",
        help="A librdkafka client setting, such as security.protocol=SSL. May be repeated.",
    ),
]
ClientSettingsFile = Annotated[
    Path | None,
    typer.Option("--client-config", metavar="FILE", help="A file of client settings, one key=value a line."),
]
TimeoutSeconds = Annotated[
    float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to wait for the cluster to answer.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Let the broker check the request, and change nothing.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts instead of a table for people.")]


def parse_assignments(assignments: list[str] | None, option: str) -> dict[str, str]:
    """The values of a repeated option as a mapping."""
    try:
        return dict(parse_assignment(assignment) for assignment in assignments or ())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def read_client_settings(file: Path | None, assignments: list[str] | None) -> dict[str, str]:
    """Client settings of a properties file, overridden by those given one by one."""
    settings: dict[str, str] = {}
    if file is not None:
        try:
            settings = read_properties(file)
        except OSError as error:
            raise CommandError(f"cannot read the client settings in {file}: {error.strerror}") from error
        except InvalidSetting as error:
            raise CommandError(str(error)) from error
    return settings | parse_assignments(assignments, "--client-setting")
