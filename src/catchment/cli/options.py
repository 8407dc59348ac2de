"""Options that several commands share, so that they are spelled and documented once."""

from contextvars import ContextVar
from pathlib import Path
from typing import Annotated, Any

import typer

from catchment.cli.broker.given_settings import parse_assignment
from catchment.cli.failure import MISTAKEN, CommandError
from catchment.cli.profile.files import PROFILE_VARIABLE, Profile, complete_name, current_name, load_profile
from catchment.settings.properties_file import read_properties
from catchment.settings.setting import InvalidSetting

DEFAULT_BOOTSTRAP_SERVERS = "127.0.0.1:9092"
BOOTSTRAP_VARIABLE = "CATCHMENT_BOOTSTRAP_SERVERS"

_BOOTSTRAP = "bootstrap_servers"
_PROFILE = "profile"
_applied: ContextVar[Profile | None] = ContextVar("applied profile", default=None)
"""The profile whose client settings go to the brokers of this command."""


def _choose_profile(context: typer.Context, name: str | None) -> None:
    """Processed before `--bootstrap-server`, whose default is what the profile says."""
    chosen = name or current_name()
    profile = None if chosen is None else load_profile(chosen)
    _applied.set(profile)
    if profile is not None and profile.bootstrap_servers:
        context.default_map = {_BOOTSTRAP: profile.bootstrap_servers}


def _reconcile_with_profile(context: typer.Context, servers: str) -> str:
    """Brokers that are named otherwise get no settings of a profile: a password must reach only the cluster it is for.

    `--profile` on the command line overrules the environment, and is joined with `--bootstrap-server`.
    """
    profile = _applied.get()
    if profile is None or _came_from(context, _BOOTSTRAP) not in ("COMMANDLINE", "ENVIRONMENT"):
        return servers
    if _came_from(context, _PROFILE) != "COMMANDLINE":
        _applied.set(None)
    elif _came_from(context, _BOOTSTRAP) == "ENVIRONMENT" and profile.bootstrap_servers:
        return profile.bootstrap_servers
    return servers


def _came_from(context: typer.Context, name: str) -> str:
    source = context.get_parameter_source(name)
    return "" if source is None else source.name


def _parameter_of(annotation: Any) -> Any:
    """An option as typer makes it, to be added to commands that do not declare it."""
    holder = typer.Typer(add_completion=False)

    @holder.command()
    def command(profile: annotation = None) -> None:
        """Never called."""

    return typer.main.get_command(holder).params[0]


PROFILE_PARAMETER: Any = _parameter_of(
    Annotated[
        str | None,
        typer.Option(
            "--profile",
            envvar=PROFILE_VARIABLE,
            metavar="NAME",
            help="Use the brokers and client settings of this profile.",
            show_default="the one of `catchment profile use`",
            is_eager=True,
            expose_value=False,
            callback=_choose_profile,
            autocompletion=complete_name,
        ),
    ]
)


def is_bootstrap_option(parameter: Any) -> bool:
    """Whether a command takes brokers from a profile, too."""
    return bool(parameter.name == _BOOTSTRAP and parameter.envvar == BOOTSTRAP_VARIABLE)


BootstrapServers = Annotated[
    str,
    typer.Option(
        "--bootstrap-server",
        "-b",
        envvar=BOOTSTRAP_VARIABLE,
        metavar="HOST:PORT[,…]",
        help="Where to reach the cluster: Catchment, or any Apache Kafka.",
        callback=_reconcile_with_profile,
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
ServerSettingsFile = Annotated[
    Path | None,
    typer.Option("--config", metavar="FILE", help="Broker settings, one key=value a line, as in server.properties."),
]
ServerSettings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A broker setting, which overrides the file. May be repeated."),
]
TimeoutSeconds = Annotated[
    float, typer.Option("--timeout", min=0.1, metavar="SECONDS", help="How long to wait for the cluster to answer.")
]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask, even on a terminal.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Let the broker check the request, and change nothing.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for scripts instead of a table for people.")]


def parse_assignments(assignments: list[str] | None, option: str) -> dict[str, str]:
    """The values of a repeated option as a mapping."""
    try:
        return dict(parse_assignment(assignment) for assignment in assignments or ())
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint=option) from error


def read_client_settings(file: Path | None, assignments: list[str] | None) -> dict[str, str]:
    """Client settings of the profile, overridden by those of a properties file, and those by the ones given one by one."""
    profile = _applied.get()
    ours = {} if profile is None else dict(profile.settings)
    return ours | read_settings_file(file) | parse_assignments(assignments, "--client-setting")


def read_settings_file(file: Path | None) -> dict[str, str]:
    """Client settings of a properties file."""
    try:
        return {} if file is None else read_properties(file)
    except OSError as error:
        message = f"cannot read the client settings in {file}: {error.strerror}"
        raise CommandError(message, "Check the path after --client-config.", exit_code=MISTAKEN) from error
    except InvalidSetting as error:
        raise CommandError(str(error), exit_code=MISTAKEN) from error
