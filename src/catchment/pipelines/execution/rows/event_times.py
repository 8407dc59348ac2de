"""Percentiles of the event times of each batch that a sink reads: Spark itself reports only their mean, minimum and maximum.

Percentiles of many batches, weighted by their rows, give the quantiles of all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

_PREFIX: Final = "event_times."
_POINTS: Final = 101
_SHARES: Final = tuple(number / (_POINTS - 1) for number in range(_POINTS))
_ACCURACY: Final = 1000
"""Spark's quantiles are off by no more than one thousandth of the rows."""


class EventTimes(NamedTuple):
    """The event times of one input in one batch."""

    rows: int
    points_ms: tuple[int, ...]
    """Ascending, in milliseconds since 1970."""


def observed_event_times(rows: DataFrame, name: str, event_time: str) -> DataFrame:
    """The same rows, with their event times as observed metrics of each batch."""
    time_ms = F.unix_millis(F.col(f"`{event_time}`"))
    points = F.percentile_approx(time_ms, list(_SHARES), _ACCURACY)
    return rows.observe(f"{_PREFIX}{name}", F.count(time_ms).alias("rows"), points.alias("points_ms"))


def reported_event_times(metrics: Mapping[str, Any]) -> Iterator[EventTimes]:
    """The event times in the observed metrics of a batch, for each input of the query."""
    for name, found in metrics.items():
        if name.startswith(_PREFIX):
            values = found.asDict() if isinstance(found, Row) else found
            if values and values["rows"]:
                yield EventTimes(int(values["rows"]), tuple(values["points_ms"]))
