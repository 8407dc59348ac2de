"""The sides of a comparison: a Spark format with the options of one way to use it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from catchment.bench.target import KAFKA
from catchment.bench.target import OURS as OUR_COLUMN

OUR_FORMAT = "catchment"
THEIR_FORMAT = "kafka"


@dataclass(frozen=True, slots=True)
class Side:
    """One side. `column` is its column in the table; sides of different rows may share one."""

    title: str
    column: str
    format: str
    read_options: Mapping[str, str] = field(default_factory=dict)
    write_options: Mapping[str, str] = field(default_factory=dict)

    @property
    def takes_schema(self) -> bool:
        """Whether the columns of a reader can be chosen; Spark's own source always builds all of them."""
        return self.format == OUR_FORMAT


EXACTLY_ONCE = Side("catchment", OUR_COLUMN, OUR_FORMAT)
AT_LEAST_ONCE = Side(
    "catchment at least once", OUR_COLUMN, OUR_FORMAT, write_options={"deliveryGuarantee": "atLeastOnce"}
)
THEIRS = Side("kafka", KAFKA, THEIR_FORMAT)
# By default their consumer lets a fetch for a future offset wait for half a second.
THEIRS_TUNED = Side("kafka tuned", "kafka tuned", THEIR_FORMAT, read_options={"kafka.fetch.max.wait.ms": "10"})
