"""Regular expressions that clients send: RE2's, whose time is linear in the input whatever a stranger writes."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from catchment.protocol.errors import ApiError


def matching(regex: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that the expression matches as a whole, in order; ApiError if it is none."""
    pattern = compiled(regex)
    return tuple(sorted(name for name in names if pattern.fullmatch(name) is not None))


def compiled(regex: str) -> Any:
    """The expression as RE2 takes it; ApiError if it is none."""
    # Few clients use it, and it takes a while to load.
    import re2

    # What a stranger got wrong is the stranger's to read, not ours on standard error.
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(regex, options)
    except re2.error as error:
        # The library gives its reason as bytes.
        reason = b"".join(part for part in error.args if isinstance(part, bytes)).decode(errors="replace")
        raise ApiError(
            ErrorCode.invalid_regular_expression, f"'{regex}' is not a valid regular expression: {reason}"
        ) from error
