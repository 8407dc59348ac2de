"""Profiles: what they hold, who may read them, and which of several sources of brokers and settings holds."""

import json
import os
import stat
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner, Result

from catchment import Broker
from catchment.cli.app import app
from catchment.cli.options import BOOTSTRAP_VARIABLE
from catchment.cli.profile.files import PROFILE_VARIABLE, Profile, load_profile, profile_file, save_profile
from catchment.settings.properties_file import read_properties

Catchment = Callable[..., Result]
ABSENT = "127.0.0.1:1"


@pytest.fixture
def catchment() -> Catchment:
    """Run a command with variables of the environment, in this process."""

    def invoke(*arguments: object, stdin: str = "", **environment: str) -> Result:
        runner = CliRunner(env={"NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "200", **environment})
        return runner.invoke(app, [str(argument) for argument in arguments], input=stdin, prog_name="catchment")

    return invoke


def reached(result: Result) -> str:
    """The brokers that a command tried to reach, none of which is there."""
    assert result.exit_code == 1, result.output
    return str(result.stderr.splitlines()[0].removeprefix("error: cannot reach ").split(" (")[0])


def test_commands_use_the_brokers_of_the_profile_that_was_created(catchment: Catchment) -> None:
    with Broker() as broker:
        broker.create_topic("there")
        created = catchment("profile", "create", "local", "-b", broker.bootstrap_servers)
        listed = catchment("topic", "list")

    assert created.exit_code == 0
    assert "created profile local" in created.stderr
    assert "there\t1\t1" in listed.stdout


def test_only_the_owner_may_read_a_profile(catchment: Catchment, tmp_path: Path) -> None:
    os.umask(os.umask(0))
    catchment("profile", "create", "prod", "-b", ABSENT, "-X", "sasl.password=secret")

    file = profile_file("prod")
    assert file == tmp_path / "config" / "catchment" / "profiles" / "prod.properties"
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700
    assert [path.name for path in file.parent.iterdir()] == ["prod.properties"]


def test_the_first_source_that_names_brokers_holds(catchment: Catchment) -> None:
    for name, port in (("current", 2), ("environment", 3), ("option", 4)):
        catchment("profile", "create", name, "-b", f"127.0.0.1:{port}")
    catchment("profile", "use", "current")
    by_name = {PROFILE_VARIABLE: "environment"}
    by_address = {BOOTSTRAP_VARIABLE: "127.0.0.1:5"}

    assert reached(catchment("topic", "list")) == "127.0.0.1:2"
    assert reached(catchment("topic", "list", **by_name)) == "127.0.0.1:3"
    assert reached(catchment("topic", "list", **by_name, **by_address)) == "127.0.0.1:5"
    assert reached(catchment("topic", "list", "--profile", "option", **by_name, **by_address)) == "127.0.0.1:4"
    assert reached(catchment("topic", "list", "--profile", "option", "-b", "127.0.0.1:6")) == "127.0.0.1:6"
    catchment("profile", "clear")
    assert reached(catchment("topic", "list", "--timeout", 1, **by_address)) == "127.0.0.1:5"


@pytest.mark.parametrize(
    ("arguments", "variables", "is_used"),
    [
        ([], {}, True),
        (["-b", "{broker}"], {}, False),
        ([], {BOOTSTRAP_VARIABLE: "{broker}"}, False),
        (["-b", "{broker}"], {PROFILE_VARIABLE: "prod"}, False),
        (["--profile", "prod"], {BOOTSTRAP_VARIABLE: "{broker}"}, True),
        (["--profile", "prod", "-b", "{broker}"], {}, True),
    ],
)
def test_the_settings_of_a_profile_go_to_its_own_brokers_alone(
    catchment: Catchment, arguments: list[str], variables: dict[str, str], is_used: bool
) -> None:
    with Broker() as broker:
        # The client refuses a setting that it does not know, which shows whether it got the setting.
        catchment("profile", "create", "prod", "-b", broker.bootstrap_servers, "-X", "shows.that.it.is.used=1")
        address = {"broker": broker.bootstrap_servers}
        words = [word.format(**address) for word in arguments]
        result = catchment("topic", "list", *words, **{key: text.format(**address) for key, text in variables.items()})

    assert ("shows.that.it.is.used" in result.stderr) is is_used
    assert result.exit_code == (2 if is_used else 0)


def test_settings_given_with_a_command_override_those_of_the_profile(catchment: Catchment, tmp_path: Path) -> None:
    (tmp_path / "client.properties").write_text("statistics.interval.ms=1000\n")
    with Broker() as broker:
        catchment("profile", "create", "prod", "-b", broker.bootstrap_servers, "-X", "statistics.interval.ms=never")

        assert catchment("topic", "list").exit_code == 2
        assert catchment("topic", "list", "--client-config", tmp_path / "client.properties").exit_code == 0
        assert catchment("topic", "list", "-X", "statistics.interval.ms=0").exit_code == 0


def test_a_profile_is_shown_without_its_secrets(catchment: Catchment) -> None:
    catchment(
        *("profile", "create", "prod", "-b", ABSENT, "-X", "sasl.username=alice", "-X", "sasl.password=geheim"),
        *("-X", "ssl.key.pem=geheim", "-X", "sasl.oauthbearer.client.secret=geheim"),
    )

    assert "geheim" not in catchment("profile", "show").output
    assert "geheim" not in catchment("profile", "show", "--json").output
    shown = json.loads(catchment("profile", "show", "prod", "--secrets", "--json").stdout)
    assert shown["settings"]["sasl.password"] == "geheim"
    assert shown["settings"]["sasl.username"] == "alice"


def test_a_password_may_be_asked_for(catchment: Catchment) -> None:
    result = catchment("profile", "create", "prod", "-b", ABSENT, "--ask-password", stdin="geheim\n")

    assert result.exit_code == 0, result.output
    assert load_profile("prod").settings == {"sasl.password": "geheim"}
    assert "geheim" not in result.output


def test_profiles_are_listed_chosen_and_deleted(catchment: Catchment) -> None:
    catchment("profile", "create", "one", "-b", "127.0.0.1:2")
    catchment("profile", "create", "two", "-b", "127.0.0.1:3", "-X", "security.protocol=SSL")

    lines = catchment("profile", "list").stdout.splitlines()
    assert lines[1:] == ["\tone\t127.0.0.1:2\tPLAINTEXT", "*\ttwo\t127.0.0.1:3\tSSL"]
    assert catchment("profile", "use", "one").exit_code == 0
    assert [one["current"] for one in json.loads(catchment("profile", "list", "--json").stdout)] == [True, False]
    assert catchment("profile", "delete", "one", "-y").exit_code == 0
    assert [one["profile"] for one in json.loads(catchment("profile", "list", "--json").stdout)] == ["two"]
    # The one that was in use is gone, and none is in its place.
    assert "no profile is in use" in catchment("profile", "show").stderr
    assert reached(catchment("topic", "list", **{BOOTSTRAP_VARIABLE: ABSENT})) == ABSENT


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (["topic", "list", "--profile", "absent"], 2, "there is no profile absent"),
        (["profile", "use", "absent"], 2, "There are prod."),
        (["profile", "delete", "../prod", "-y"], 2, "there is no profile ../prod"),
        (["profile", "create", "../prod", "-b", ABSENT], 2, "is no name of a profile"),
        (["profile", "create", "prod", "-b", ABSENT], 1, "profile prod exists already"),
        (["profile", "create", "other"], 2, "name the brokers"),
        (
            ["profile", "create", "other", "-b", ABSENT, "--client-config", "absent"],
            2,
            "cannot read the client settings",
        ),
    ],
)
def test_a_mistake_is_named_and_changes_nothing(
    catchment: Catchment, arguments: list[str], status: int, message: str
) -> None:
    catchment("profile", "create", "prod", "-b", "127.0.0.1:2")

    result = catchment(*arguments)

    assert result.exit_code == status
    assert message in result.stderr
    assert [one["profile"] for one in json.loads(catchment("profile", "list", "--json").stdout)] == ["prod"]
    assert load_profile("prod").bootstrap_servers == "127.0.0.1:2"


def test_a_profile_made_of_a_file_holds_what_the_file_holds(catchment: Catchment, tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text("bootstrap.servers=127.0.0.1:2\nsecurity.protocol=SSL\n")

    assert catchment("profile", "create", "prod", "--client-config", file).exit_code == 0

    assert load_profile("prod") == Profile("prod", "127.0.0.1:2", {"security.protocol": "SSL"})
    assert read_properties(profile_file("prod")) == read_properties(file)


_TEXTS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), min_size=1).map(str.strip)


@given(settings=st.dictionaries(_TEXTS.filter(bool), _TEXTS | st.sampled_from(["a\tb", "C:\\new", "#x", "a=b: c"])))
def test_every_setting_is_read_as_it_was_written(settings: dict[str, str]) -> None:
    settings.pop("bootstrap.servers", None)
    profile = Profile("any", ABSENT, settings)
    save_profile(profile)
    assert load_profile("any") == profile
