"""Settings that cannot be, as the error that a client gets."""

import contextlib
from collections.abc import Iterator, Mapping

from kio.schema.errors import ErrorCode

from catchment.ports import topic_settings
from catchment.ports.settings import InvalidSetting
from catchment.protocol.errors import ApiError


@contextlib.contextmanager
def invalid_settings_answered() -> Iterator[None]:
    """Turn what the settings say no with into INVALID_CONFIG."""
    try:
        yield
    except InvalidSetting as error:
        raise ApiError(ErrorCode.invalid_config, str(error)) from error


def validate_topic_settings(overrides: Mapping[str, str]) -> None:
    with invalid_settings_answered():
        topic_settings.validate_topic_settings(overrides)
