"""`catchment profile`: save the settings of several clusters, and switch between them."""

from typing import Annotated, Any

import typer

from catchment.cli.failure import CommandError
from catchment.cli.options import (
    AsJson,
    ClientSettings,
    ClientSettingsFile,
    Yes,
    parse_assignments,
    read_settings_file,
)
from catchment.cli.output import confirm, print_json, print_note, print_table
from catchment.cli.profile.files import (
    SERVERS,
    Profile,
    check_name,
    complete_name,
    current_name,
    delete_profile,
    load_profile,
    profile_file,
    profile_names,
    save_profile,
    shown_settings,
    use_profile,
)

app = typer.Typer(no_args_is_help=True, pretty_exceptions_enable=False)


def _checked_name(name: str) -> str:
    try:
        return check_name(name)
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error


Name = Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile.", autocompletion=complete_name)]


@app.command("create")
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the profile.", callback=_checked_name)],
    servers: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            "-b",
            metavar="HOST:PORT[,…]",
            help="The brokers of the cluster.",
            show_default="bootstrap.servers of the settings",
        ),
    ] = None,
    client_settings: ClientSettings = None,
    client_config: ClientSettingsFile = None,
    ask_password: Annotated[
        bool, typer.Option("--ask-password", help="Ask for sasl.password, so that no shell history has it.")
    ] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a profile of the same name.")] = False,
    as_json: AsJson = False,
) -> None:
    """Save the brokers and client settings of a cluster, and use them from now on."""
    settings = read_settings_file(client_config) | parse_assignments(client_settings, "--client-setting")
    brokers = servers or settings.get(SERVERS)
    if not brokers:
        raise typer.BadParameter("name the brokers of the cluster", param_hint="--bootstrap-server")
    if not overwrite and profile_file(name).exists():
        raise CommandError(f"profile {name} exists already", "Add --overwrite to replace it.")
    if ask_password:
        settings["sasl.password"] = typer.prompt("sasl.password", hide_input=True, err=True)
    settings.pop(SERVERS, None)
    file = save_profile(Profile(name, brokers, settings))
    use_profile(name)
    if as_json:
        print_json({"profile": name, "result": "created", "file": str(file)})
    else:
        print_note(f"created profile {name} in {file}; commands use it from now on")


@app.command("list")
def list_command(as_json: AsJson = False) -> None:
    """List profiles; an asterisk marks the current one."""
    current = current_name()
    profiles = [load_profile(name) for name in profile_names()]
    if as_json:
        print_json([_summary(one, current) for one in profiles])
    elif not profiles:
        print_note("no profiles yet: `catchment profile create NAME --bootstrap-server HOST:PORT` makes one")
    else:
        print_table(
            ["", "profile", "brokers", "security"],
            [
                [
                    "*" if one.name == current else "",
                    one.name,
                    one.bootstrap_servers or "",
                    one.settings.get("security.protocol", "PLAINTEXT"),
                ]
                for one in profiles
            ],
        )


@app.command("show")
def show(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="NAME", help="Name of the profile.", show_default="the current one", autocompletion=complete_name
        ),
    ] = None,
    secrets: Annotated[bool, typer.Option("--secrets", help="Show passwords and keys, too.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show the brokers and client settings of a profile."""
    current = current_name()
    if name is None and current is None:
        raise CommandError("no profile is in use", "`catchment profile list` shows the profiles.")
    profile = load_profile(name or current or "")
    settings = shown_settings(profile, with_secrets=secrets)
    if as_json:
        print_json({**_summary(profile, current), "settings": settings})
    else:
        rows = [("profile", profile.name), (SERVERS, profile.bootstrap_servers or ""), *settings.items()]
        print_table(["setting", "value"], [*rows, ("file", profile_file(profile.name))])


@app.command("use")
def use(name: Name, as_json: AsJson = False) -> None:
    """Make a profile the current one, which commands use by default."""
    use_profile(name)
    _report(name, "used", f"commands use profile {name} from now on", as_json)


@app.command("clear")
def clear(as_json: AsJson = False) -> None:
    """Use no profile; the profiles stay."""
    name = current_name()
    use_profile(None)
    _report(name, "cleared", "commands use no profile from now on", as_json)


@app.command("delete")
def delete(name: Name, yes: Yes = False, as_json: AsJson = False) -> None:
    """Delete a profile with the settings that it holds."""
    load_profile(name)
    confirm(f"Delete profile {name}?", yes=yes)
    delete_profile(name)
    _report(name, "deleted", f"deleted profile {name}", as_json)


def _summary(profile: Profile, current: str | None) -> dict[str, Any]:
    return {
        "profile": profile.name,
        "current": profile.name == current,
        "bootstrap_servers": profile.bootstrap_servers,
        "security_protocol": profile.settings.get("security.protocol", "PLAINTEXT"),
    }


def _report(name: str | None, result: str, text: str, as_json: bool) -> None:
    if as_json:
        print_json({"profile": name, "result": result})
    else:
        print_note(text)
