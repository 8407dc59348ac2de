"""Regular expressions that clients send. RE2 matches any of them in time linear in the input."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kio.schema.errors import ErrorCode

from catchment.protocol.errors import ApiError


def matching(regex: str, names: Iterable[str]) -> tuple[str, ...]:
    """The names that the expression matches as a whole, sorted; ApiError if it is invalid."""
    pattern = compiled(regex)
    return tuple(sorted(name for name in names if pattern.fullmatch(name) is not None))


def compiled(regex: str) -> Any:
    """The expression, compiled by RE2; ApiError if it is invalid."""
    # Few clients use it, and it is slow to import.
    import re2

    # The error goes to the client, not to standard error.
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
