"""Profiles: the brokers and client settings of a cluster under a name, in the user's configuration directory.

A profile is a properties file, as Kafka's own clients read it, that only its owner may read. The profile is chosen in this
order: `--profile`, the environment, and the one that `catchment profile use` chose.
"""

import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final, NamedTuple

from catchment.cli.failure import MISTAKEN, CommandError
from catchment.settings.properties_file import read_properties
from catchment.settings.setting import InvalidSetting

PROFILE_VARIABLE: Final = "CATCHMENT_PROFILE"
SERVERS: Final = "bootstrap.servers"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}", re.ASCII)
_SUFFIX: Final = ".properties"
_CURRENT: Final = "current-profile"
_SPECIAL: Final = frozenset("\\=:#! ")
_SECRET: Final = re.compile(r"password|secret|\.pem$|jaas", re.ASCII)
_HIDDEN: Final = "********"


class Profile(NamedTuple):
    name: str
    bootstrap_servers: str | None
    settings: Mapping[str, str]
    """Client settings by librdkafka's names."""


def config_directory() -> Path:
    """The configuration directory, by the XDG base directory specification."""
    # A relative path there is invalid by that specification, and ignored.
    base = Path(os.environ.get("XDG_CONFIG_HOME", ""))
    return (base if base.is_absolute() else Path.home() / ".config") / "catchment"


def profile_file(name: str) -> Path:
    return config_directory() / "profiles" / f"{name}{_SUFFIX}"


def check_name(name: str) -> str:
    """The name, if it is valid as a file name; raises ValueError otherwise."""
    if _NAME.fullmatch(name) is None:
        raise ValueError(f"{name!r} is no name of a profile: use letters, digits, dots, underscores and hyphens")
    return name


def profile_names() -> list[str]:
    return sorted(file.name.removesuffix(_SUFFIX) for file in profile_file("any").parent.glob(f"*{_SUFFIX}"))


def complete_name(incomplete: str) -> list[str]:
    """For shell completion: the profiles whose names start with the given text."""
    return [name for name in profile_names() if name.startswith(incomplete)]


def load_profile(name: str) -> Profile:
    try:
        properties = read_properties(profile_file(check_name(name)))
    except (FileNotFoundError, ValueError) as error:
        known = ", ".join(profile_names())
        advice = f"There are {known}." if known else "`catchment profile create` makes one."
        raise CommandError(f"there is no profile {name}", advice, exit_code=MISTAKEN) from error
    except (OSError, InvalidSetting) as error:
        raise CommandError(f"cannot read profile {name}: {error}", exit_code=MISTAKEN) from error
    return Profile(name, properties.pop(SERVERS, None), properties)


def save_profile(profile: Profile) -> Path:
    """Write a profile, replacing one of the same name. Only the user may read it: it may hold a password."""
    values = {SERVERS: profile.bootstrap_servers, **profile.settings} if profile.bootstrap_servers else profile.settings
    lines = [f"{_escaped(name)}={_escaped(str(value))}\n" for name, value in values.items()]
    return _write(profile_file(profile.name), "".join(lines))


def delete_profile(name: str) -> None:
    load_profile(name)
    profile_file(name).unlink()
    if current_name() == name:
        use_profile(None)


def current_name() -> str | None:
    """The profile that `catchment profile use` chose."""
    try:
        return (config_directory() / _CURRENT).read_text(encoding="utf-8").strip() or None
    except FileNotFoundError:
        return None


def use_profile(name: str | None) -> None:
    """Set the current profile, or none."""
    if name is None:
        (config_directory() / _CURRENT).unlink(missing_ok=True)
    else:
        load_profile(name)
        _write(config_directory() / _CURRENT, f"{name}\n")


def shown_settings(profile: Profile, *, with_secrets: bool) -> dict[str, str]:
    """The client settings, with passwords and keys hidden unless they are asked for."""
    return {
        name: value if with_secrets or not _SECRET.search(name) else _HIDDEN for name, value in profile.settings.items()
    }


def _escaped(text: str) -> str:
    """Escape a value as Java's properties files do: a backslash before some characters, other white space by its code."""
    return "".join(
        f"\\{character}" if character in _SPECIAL else f"\\u{ord(character):04x}" if character.isspace() else character
        for character in text
    )


def _write(file: Path, text: str) -> Path:
    file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    draft = file.with_name(f".{file.name}.{os.getpid()}")
    draft.unlink(missing_ok=True)
    with open(os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8") as stream:
        stream.write(text)
    draft.replace(file)
    return file
