"""How the rows of a stage are in its topic: Avro, which carries every type of Spark, or JSON for readers outside of the pipeline."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Literal

RowFormat = Literal["avro", "json"]
NEW_ROWS: Final[RowFormat] = "avro"
"""Of a topic that begins, unless its author asks for another."""
OLD_ROWS: Final[RowFormat] = "json"
"""Of a topic that was begun before there was a choice."""


@dataclass(frozen=True)
class WrittenRows:
    """What a topic that a query goes on with holds already."""

    format: RowFormat
    schemas: tuple[str, ...] = ()
    """The Avro schemas that rows in it may have been written with."""
