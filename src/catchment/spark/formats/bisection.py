"""Find the few invalid rows of a column by bisection, for vectorised work that reports only that some row is invalid."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
import pyarrow as pa

from catchment.client.columns.arrays import Longs
from catchment.spark.formats.payloads import Payloads

_LONGEST_REASON: Final = 200


def wrong_rows(payloads: Payloads, attempt: Callable[[Payloads], Any]) -> dict[int, str]:
    """The rows for which the attempt raises `ArrowInvalid`, each with the reason, by halving down to single rows."""
    reasons: dict[int, str] = {}
    waiting: list[Longs] = [np.flatnonzero(payloads.present)]
    while waiting:
        rows = waiting.pop()
        try:
            attempt(payloads.only(rows))
        except pa.ArrowInvalid as error:
            if len(rows) == 1:
                reasons[int(rows[0])] = str(error)[:_LONGEST_REASON]
            else:
                waiting += [rows[: len(rows) // 2], rows[len(rows) // 2 :]]
    return dict(sorted(reasons.items()))
