"""Records that are set aside, as they came, with headers that say why, by whom and from where: the same for events and for tables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F

from catchment.pipelines.execution.run_context import RunContext

READING: Final = {"onDecodeError": "null", "includeBytes": "true", "includeHeaders": "true"}
"""How records are read of which some may have to be set aside. The number of the batch comes with `watermarkFrom`."""
_NO_HEADERS: Final = "array<struct<key:string,value:binary>>"


def as_it_came() -> Column:
    """A record of the source, whole."""
    value = F.col("valueBytes").alias("value")
    return F.struct("key", value, "headers", "topic", "partition", "offset", "timestamp", "batchId")


def undecodable() -> Column:
    """What is wrong with a record that does not decode; null if it does."""
    return F.when(F.col("valueError").isNotNull(), F.concat(F.lit("does not decode: "), F.col("valueError")))


def headers(context: RunContext, stage: str, record: str, reason: Column) -> Column:
    """The headers that a record had and behind them ours, as text: arrays, even null ones, double the time that Spark needs to hand
    a row to Python."""
    facts = {
        "error": reason,
        "pipeline": F.lit(context.pipeline),
        "stage": F.lit(stage),
        "topic": F.col(f"{record}.topic"),
        "partition": F.col(f"{record}.partition"),
        "offset": F.col(f"{record}.offset"),
        "timestamp": F.unix_millis(f"{record}.timestamp"),
        "batch": F.col(f"{record}.batchId"),
    }
    theirs = F.coalesce(F.col(f"{record}.headers"), F.expr("array()").cast(_NO_HEADERS))
    return F.to_json(F.concat(theirs, own_headers(facts)))


def own_headers(facts: Mapping[str, Column]) -> Column:
    """What Catchment itself says of a record."""
    return F.array(
        *(
            F.struct(F.lit(f"catchment.{name}").alias("key"), fact.cast("string").cast("binary").alias("value"))
            for name, fact in facts.items()
        )
    )
