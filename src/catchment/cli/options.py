"""Options that several commands share, so that they are spelled and documented once."""

from pathlib import Path
from typing import Annotated

import typer

from catchment.cli.failure import CommandError

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
    float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to wait for an answer of the cluster.")
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts instead of a table for people.")]


def parse_assignments(assignments: list[str] | None, option: str) -> dict[str, str]:
    """`["a=1", "b=x=y"]` as a mapping; the value may hold further equal signs."""
    parsed = {}
    for assignment in assignments or ():
        name, separator, value = assignment.partition("=")
        if not separator or not name.strip():
            raise typer.BadParameter(f"{assignment!r} is not KEY=VALUE", param_hint=option)
        parsed[name.strip()] = value.strip()
    return parsed


def read_client_settings(file: Path | None, assignments: list[str] | None) -> dict[str, str]:
    """Client settings of a properties file, overridden by those given one by one."""
    settings: dict[str, str] = {}
    if file is not None:
        try:
            lines = file.read_text(encoding="utf-8").splitlines()
        except OSError as error:
            raise CommandError(f"cannot read the client settings in {file}: {error.strerror}") from error
        written = [line.strip() for line in lines]
        settings = parse_assignments([line for line in written if line and line[0] not in "#!"], str(file))
    return settings | parse_assignments(assignments, "--client-setting")
