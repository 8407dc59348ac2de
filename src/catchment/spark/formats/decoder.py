"""The interface of a format: it turns payloads into a column of one Spark type."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType

from catchment.spark.formats.payloads import Payloads


class Decoded(NamedTuple):
    """A column as long as the payloads, null where they were absent or wrong, and what was wrong by row."""

    column: Any
    errors: dict[int, str]


class Decoder(Protocol):
    """A format with its schema. It is pickled and sent to the tasks, so that what it needs is inside it."""

    @property
    def data_type(self) -> DataType:
        """The type of the column, in which everything may be null: records that do not decode are."""
        ...

    def decode(self, payloads: Payloads) -> Decoded:
        """Exactly of the type: what reads the column afterwards checks no bounds."""
        ...


class Undecodable(Exception):
    """Bytes that are not what the schema says; the message is the reason, short and without the bytes themselves."""


def arrow_type(data_type: DataType) -> Any:
    """The Arrow type that Spark expects for one of its own."""
    return to_arrow_type(data_type, timezone="UTC")
