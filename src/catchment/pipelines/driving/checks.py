"""Checks with `stop_above`: the share of a batch's rows that fail, against what the author allows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from catchment.pipelines.specification import Check


def breach(checks: Sequence[Check], observed: Mapping[str, Any] | None) -> str | None:
    """What to say if a batch fails a check more often than it may; None otherwise.

    `observed` are the counts that the intake has Spark take of each batch: `rows`, and `check0`, `check1`, …
    """
    if not observed or not observed["rows"]:
        return None
    rows = int(observed["rows"])
    for number, check in enumerate(checks):
        failed = int(observed[f"check{number}"])
        if check.stop_above is not None and failed > check.stop_above * rows:
            return (
                f"{failed} of the {rows} rows of a batch fail the check {check.expect}: that is {failed / rows:.2%},"
                f" more than the {check.stop_above:.2%} that stop_above allows"
            )
    return None
