"""The settings that a broker is started with: those of a file, and those of the command line, which win."""

from collections.abc import Mapping
from pathlib import Path

from catchment.cli.failure import CommandError
from catchment.ports.broker_settings import BrokerSettings, require_known
from catchment.ports.properties_file import read_properties
from catchment.ports.settings import InvalidSetting


def load_settings(config: Path | None, given: Mapping[str, str]) -> BrokerSettings:
    """The settings of a file and of the command line, which wins. Names typed by hand must exist."""
    try:
        require_known(list(given))
        return BrokerSettings({**(read_properties(config) if config else {}), **given})
    except InvalidSetting as error:
        raise CommandError(str(error), "The settings are listed in docs/reference/settings.md.") from error
    except OSError as error:
        raise CommandError(f"cannot read the settings in {config}: {error.strerror}") from error
