"""The settings that a broker is started with: those of a file, and those of the command line, which win."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from catchment.cli.failure import MISTAKEN, CommandError

if TYPE_CHECKING:
    from catchment.settings.broker import BrokerSettings


def parse_assignment(text: str) -> tuple[str, str]:
    """Name and value; the value may hold further equal signs. Raises ValueError."""
    name, separator, value = text.partition("=")
    if not separator or not name.strip():
        raise ValueError(f"{text!r} is not KEY=VALUE")
    return name.strip(), value.strip()


def load_settings(config: Path | None, given: Mapping[str, str]) -> "BrokerSettings":
    """The settings of a file and of the command line, which wins. Names typed by hand must exist."""
    from catchment.settings.broker import BrokerSettings, require_known
    from catchment.settings.properties_file import read_properties
    from catchment.settings.setting import InvalidSetting

    try:
        require_known(list(given))
        return BrokerSettings({**(read_properties(config) if config else {}), **given})
    except InvalidSetting as error:
        advice = "The settings are listed in docs/reference/settings.md."
        raise CommandError(str(error), advice, exit_code=MISTAKEN) from error
    except OSError as error:
        message = f"cannot read the settings in {config}: {error.strerror}"
        raise CommandError(message, "Check the path after --config.", exit_code=MISTAKEN) from error
