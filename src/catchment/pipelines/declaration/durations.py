"""Lengths of time as people write them: `20 seconds`, `5 minutes`, `1 year`."""

from __future__ import annotations

import re
from typing import Annotated, Any, Final

from pydantic import BeforeValidator

_LENGTH: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-z]+)\s*", re.IGNORECASE)
_SECOND_MS: Final = 1000
_DAY_MS: Final = 86_400 * _SECOND_MS
_UNITS_MS: Final = {
    "ms": 1,
    "millisecond": 1,
    "s": _SECOND_MS,
    "second": _SECOND_MS,
    "m": 60 * _SECOND_MS,
    "min": 60 * _SECOND_MS,
    "minute": 60 * _SECOND_MS,
    "h": 3600 * _SECOND_MS,
    "hour": 3600 * _SECOND_MS,
    "d": _DAY_MS,
    "day": _DAY_MS,
    "week": 7 * _DAY_MS,
    "year": 365 * _DAY_MS,
}


def milliseconds(length: Any) -> int:
    """Milliseconds of a length of time. A bare number would leave its unit to be guessed."""
    match = _LENGTH.fullmatch(length) if isinstance(length, str) else None
    unit = match[2].lower() if match else ""
    unit_ms = _UNITS_MS.get(unit) or _UNITS_MS.get(unit.removesuffix("s"))
    if match is None or unit_ms is None:
        raise ValueError(f"{length!r} is no length of time; write it like '20 seconds' or '5 minutes'")
    return round(float(match[1]) * unit_ms)


def interval(length_ms: int) -> str:
    """The duration in the form that Spark reads."""
    return f"{length_ms} milliseconds"


DurationMs = Annotated[int, BeforeValidator(milliseconds)]
