"""The levels of the broker's own loggers, which clients may read and change while it runs (KIP-412).

Levels have Log4j's names, as in Kafka's tools. A change lasts until the process ends. `root` is the logger `catchment`, the
parent of all others: the root logger of the process may belong to a program that embeds the broker.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

from kio.schema.errors import ErrorCode

from catchment.protocol.errors import ApiError

ROOT: Final = "root"
_PACKAGE: Final = "catchment"
_LEVELS: Final = {"TRACE": 5, "DEBUG": 10, "INFO": 20, "WARN": 30, "ERROR": 40, "FATAL": 50}


def effective_levels() -> dict[str, str]:
    """Every logger of the broker with its effective level."""
    return {name: _level_name(logger.getEffectiveLevel()) for name, logger in _loggers().items()}


def own_levels() -> dict[str, str]:
    """The loggers that have a level of their own instead of their parent's."""
    return {name: _level_name(logger.level) for name, logger in _loggers().items() if logger.level != logging.NOTSET}


def check_levels(levels: Mapping[str, str]) -> None:
    """Raise ApiError unless these are valid as the loggers' own levels."""
    loggers = _loggers()
    for name, level in levels.items():
        if name not in loggers:
            raise ApiError(ErrorCode.invalid_config, f"Logger {name} does not exist!")
        if level not in _LEVELS:
            reason = f"Cannot set the log level of {name} to {level}. Valid log levels are {', '.join(_LEVELS)}"
            raise ApiError(ErrorCode.invalid_config, reason)
    if ROOT in own_levels() and ROOT not in levels:
        raise ApiError(ErrorCode.invalid_request, "Removing the log level of the root logger is not allowed")


def set_levels(levels: Mapping[str, str]) -> None:
    """Set the loggers' own levels; all other loggers inherit their parent's."""
    before = own_levels()
    for name, logger in _loggers().items():
        if before.get(name) != levels.get(name):
            logger.setLevel(_LEVELS[levels[name]] if name in levels else logging.NOTSET)


def _loggers() -> dict[str, logging.Logger]:
    known = {
        name: logger
        for name, logger in sorted(logging.root.manager.loggerDict.copy().items())
        if name.startswith(f"{_PACKAGE}.") and isinstance(logger, logging.Logger)
    }
    return {ROOT: logging.getLogger(_PACKAGE), **known}


def _level_name(level: int) -> str:
    """The most verbose of Log4j's levels that logs no more than this one."""
    return next((name for name, number in _LEVELS.items() if number >= level), "FATAL")
