"""Expected rows against those that came, in any order, and the difference as a table for people."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from numbers import Real
from typing import Any, Final

from catchment.pipelines.trials.rows import ERROR, Row, as_time

_MOST_ROWS_SHOWN: Final = 50
_WIDEST_CELL: Final = 60


def difference(expected: Sequence[Row], got: Sequence[Row]) -> str | None:
    """None if they are the same rows; else a table of missing and unexpected rows.

    An expected row is compared in the columns that it names, so that a test can leave out what it is not about.
    """
    matched = _matching(expected, got)
    missing = [row for place, row in enumerate(expected) if place not in matched]
    unexpected = [row for place, row in enumerate(got) if place not in matched.values()]
    if not missing and not unexpected:
        return None
    columns = list(dict.fromkeys(name for row in expected for name in row))
    columns = columns or list(dict.fromkeys(name for row in unexpected for name in row))
    return _table(columns, missing, unexpected, len(matched))


def is_same(expected: Any, got: Any) -> bool:
    """Whether a value is the one expected, however the test has written it."""
    if isinstance(got, datetime | date) or isinstance(expected, datetime | date):
        return as_time(expected) == as_time(got)
    if isinstance(expected, Mapping) and isinstance(got, Mapping):
        return all(name in got and is_same(value, got[name]) for name, value in expected.items())
    if isinstance(expected, list | tuple) and isinstance(got, list | tuple):
        return len(expected) == len(got) and all(map(is_same, expected, got))
    if isinstance(expected, bool) or isinstance(got, bool):
        return expected is got
    if isinstance(got, Decimal) and isinstance(expected, str | int | float):
        return _is_number(expected, got)
    if isinstance(expected, Real) and isinstance(got, Real):
        return math.isclose(float(expected), float(got), rel_tol=1e-9)
    if isinstance(expected, str) and isinstance(got, bytes):
        return expected.encode() == got
    return bool(expected == got)


def _is_number(expected: str | float, got: Decimal) -> bool:
    try:
        return Decimal(str(expected)) == got
    except InvalidOperation:
        return False


def _fits(expected: Row, got: Row) -> bool:
    """Reasons are long, so a test names a part of one."""
    return all(
        value in got[name] if name == ERROR and isinstance(value, str) else is_same(value, got[name])
        for name, value in expected.items()
        if name in got
    ) and all(name in got for name in expected)


def _matching(expected: Sequence[Row], got: Sequence[Row]) -> dict[int, int]:
    """As many pairs as can be made; a row that is expected twice must have come twice."""
    taken: dict[int, int] = {}

    def place(wanted: int, tried: set[int]) -> bool:
        for found, row in enumerate(got):
            if found not in tried and _fits(expected[wanted], row):
                tried.add(found)
                if found not in taken or place(taken[found], tried):
                    taken[found] = wanted
                    return True
        return False

    for wanted in range(len(expected)):
        place(wanted, set())
    return {wanted: found for found, wanted in taken.items()}


def _table(columns: list[str], missing: Sequence[Row], unexpected: Sequence[Row], same: int) -> str:
    lines = [["", *columns]]
    lines += [["expected", *(_cell(row, name) for name in columns)] for row in missing[:_MOST_ROWS_SHOWN]]
    lines += [["got", *(_cell(row, name) for name in columns)] for row in unexpected[:_MOST_ROWS_SHOWN]]
    widths = [max(len(line[place]) for line in lines) for place in range(len(columns) + 1)]
    drawn = ["  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip() for line in lines]
    hidden = max(0, len(missing) - _MOST_ROWS_SHOWN) + max(0, len(unexpected) - _MOST_ROWS_SHOWN)
    ends = [f"… and {hidden} more"] if hidden else []
    return "\n".join([*drawn, *ends, f"{same} rows are as expected"])


def _cell(row: Row, name: str) -> str:
    if name not in row:
        return "·"
    value = row[name]
    text = value.isoformat() if isinstance(value, datetime | date) else "null" if value is None else str(value)
    return text if len(text) <= _WIDEST_CELL else text[: _WIDEST_CELL - 1] + "…"
