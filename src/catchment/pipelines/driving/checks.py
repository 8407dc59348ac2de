"""Checks with `stop_above`: the share of rows that fail, against what the author allows.

One row says nothing of a share, and a small batch has few of them. So batches are added up until there are so many rows that
several may fail; then the sum starts again, as it does with every driver: a restart makes no row count twice. If more have failed than
those rows allow, it is not waited for the rest of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, Final

from catchment.pipelines.declaration.specification import Check

_LEAST_ROWS: Final = 300
_ALLOWED_ROWS: Final = 10
"""A small share is judged by so many rows that it allows these to fail."""


class CheckShares:
    """The checks of one source stage, and the rows that were judged since its sums began."""

    def __init__(self, checks: Sequence[Check]) -> None:
        self._checks = checks
        self._rows = [0] * len(checks)
        self._failed = [0] * len(checks)

    def breach(self, observed: Mapping[str, Any] | None) -> str | None:
        """What to say if rows fail a check more often than they may, with those of one more batch; None otherwise.

        `observed` are the counts that the source stage has Spark take of each batch: `rows`, and `check0`, `check1`, …
        """
        if not observed:
            return None
        for number, check in enumerate(self._checks):
            if check.stop_above is None:
                continue
            self._rows[number] += int(observed["rows"])
            self._failed[number] += int(observed[f"check{number}"])
            rows, failed = self._rows[number], self._failed[number]
            enough = _enough_rows(check.stop_above)
            if failed > check.stop_above * max(rows, enough):
                return (
                    f"{failed} of the last {rows} rows fail the check {check.expect}: that is {failed / rows:.2%},"
                    f" more than the {check.stop_above:.2%} that stop_above allows"
                )
            if rows >= enough:
                self._rows[number] = self._failed[number] = 0
        return None


def _enough_rows(share: float) -> int:
    """How many rows a share is judged by; where none may fail, none are needed."""
    return max(_LEAST_ROWS, math.ceil(_ALLOWED_ROWS / share)) if share else 0
