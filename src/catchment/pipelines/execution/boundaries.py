"""Topics between queries: rows as JSON objects in, rows out.

All records of one batch carry the batch's time, which Spark writes down with the batch. Readers take such groups whole and only
of batches that are finished, so that the watermark of a reader is never ahead of the rows that it has still to read.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from catchment.pipelines.durations import interval
from catchment.pipelines.execution.workplace import Workplace
from catchment.pipelines.graph import Boundary

_JSON: Final = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX", "ignoreNullFields": "true"}
"""Spark's own format would cut microseconds off."""
TARGET_BATCH_S: Final = 1.0


def as_json(columns: list[str]) -> Column:
    """A row as the value of a record."""
    return F.to_json(F.struct(*(F.col(f"`{name}`") for name in columns)), _JSON).cast("binary")


def as_key(columns: tuple[str, ...]) -> Column:
    """Columns as the key of a record: one as its text, several as a JSON object."""
    if len(columns) == 1:
        return F.col(f"`{columns[0]}`").cast("string").cast("binary")
    return as_json(list(columns))


def to_records(rows: DataFrame, topic: str, key: tuple[str, ...]) -> DataFrame:
    """Rows in the form that the sink writes."""
    return rows.select(
        F.lit(topic).alias("topic"),
        (as_key(key) if key else F.lit(None).cast("binary")).alias("key"),
        as_json(rows.columns).alias("value"),
        F.current_timestamp().alias("timestamp"),
    )


def read_boundary(place: Workplace, name: str, query: str, noted: tuple[str, ...] = ()) -> DataFrame:
    """The rows that an intake or a step has written, for a query that reads them as a stream."""
    boundary = place.graph.boundary(name)
    assert boundary is not None, f"{name} has a topic if somebody reads it"
    options = place.connection | {
        "subscribe": boundary.topic,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        "kafka.group.id": f"{place.pipeline}.{query}",
        "maxOffsetsPerTrigger": "auto",
        "targetBatchSeconds": str(TARGET_BATCH_S),
        "admission": "timestamp",
        "admitUpTo": place.checkpoint(name),
        "valueFormat": "json",
        "valueSchema": place.schemas[name].json(),
    }
    if noted:
        options["noteTopics"] = ",".join(noted)
    reader = place.spark.readStream.format("catchment").options(**options)
    rows = reader.schema(_value_alone(place.schemas[name])).load().select("value.*")
    return with_watermark(rows, boundary)


def with_watermark(rows: DataFrame, boundary: Boundary) -> DataFrame:
    """Rows that come late by no more than the boundary allows; there are no others."""
    if boundary.event_time is None:
        return rows
    return rows.withWatermark(boundary.event_time, interval(boundary.lateness_ms))


def _value_alone(schema: StructType) -> StructType:
    return StructType().add("value", schema)
