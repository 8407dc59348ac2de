"""Boundaries, the topics between queries: rows written to them in their format, and read back.

All records of one batch carry the batch's time, which Spark stores in the checkpoint. If the clock is set back, the time still rises
with the batch's id. Readers take the records of a batch together, and only of finished batches, so the watermark of a reader is never
ahead of rows that it has not read yet.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from catchment.pipelines.declaration.addresses import LARGEST_RECORD_BYTES
from catchment.pipelines.declaration.durations import interval
from catchment.pipelines.declaration.specification import RowFormat
from catchment.pipelines.execution.rows.row_values import as_json, row_columns, row_values, value_schema
from catchment.pipelines.execution.rows.row_values import decoding_options as row_decoding_options
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.execution.session import read_stream
from catchment.pipelines.graph import Boundary

RECORD_KEY: Final = "__record_key"
"""The key of a row's record, beside the columns of the row."""
_TARGET_BATCH_S: Final = 2.0
"""The target for a query that lags: about half a second of it is overhead, however few rows a batch has."""

_MOST_BATCH_BYTES: Final = "64m"
"""The rows of a batch for a store or an alert are in the driver's memory, with copies in the JVM, which has 1 GB by default."""


def as_key(columns: tuple[str, ...], rows_as: RowFormat = "json") -> Column:
    """Columns as the key of a record: one as its text, several as a JSON object."""
    if len(columns) == 1:
        return F.col(f"`{columns[0]}`").cast("string").cast("binary")
    return as_json(columns, exact=rows_as == "avro")


def to_records(
    rows: DataFrame, topic: str, key: tuple[str, ...], time_ms: int | None = None, rows_as: RowFormat = "json"
) -> DataFrame:
    """Rows as the records that the sink writes. In a stream the current time is the batch's; elsewhere it must be given.

    Without columns for it, the key is the one that the records came with, if the rows have it beside their columns.
    """
    columns = StructType([one for one in rows.schema.fields if one.name != RECORD_KEY])
    came_with = F.col(RECORD_KEY) if RECORD_KEY in rows.columns else F.lit(None).cast("binary")
    return rows.select(
        F.lit(topic).alias("topic"),
        (as_key(key, rows_as) if key else came_with).alias("key"),
        row_values(columns, rows_as).alias("value"),
        (F.current_timestamp() if time_ms is None else F.timestamp_millis(F.lit(time_ms))).alias("timestamp"),
    )


def stream_options(context: RunContext, topic: str, query: str, noted: tuple[str, ...] = ()) -> dict[str, str]:
    """The options by which every query of a pipeline reads a topic; `noted` are the topics of tables that it joins."""
    options = context.connection | {
        "subscribe": topic,
        "startingOffsets": "earliest",
        "kafka.isolation.level": "read_committed",
        "kafka.group.id": f"{context.pipeline}.{query}",
        "maxOffsetsPerTrigger": "auto",
        "targetBatchSeconds": str(_TARGET_BATCH_S),
        "maxBytesPerTrigger": _MOST_BATCH_BYTES,
    }
    if context.graph.goes_by_clock(query):
        options["batchAtStart"] = "true"
    return options | {"noteTopics": ",".join(noted)} if noted else options


def sink_options(context: RunContext, query: str) -> dict[str, str]:
    """The options by which every query of a pipeline writes to topics, each record exactly once."""
    own = {
        "checkpointLocation": context.checkpoint(query),
        "kafka.max.request.size": str(LARGEST_RECORD_BYTES),
    }
    if query in context.graph.source_stages or query in context.graph.processing_stages:
        # Readers separate batches by their times, so these must rise even if the clock is set back.
        own["risingTimestamps"] = "true"
    return own | context.connection


def read_boundary(
    context: RunContext, name: str, query: str, noted: tuple[str, ...] = (), *, with_key: bool = False
) -> DataFrame:
    """The rows that a source stage or a processing stage has written, for a query that reads them as a stream."""
    boundary = context.graph.boundary(name)
    assert boundary is not None, f"{name} has a topic if a query reads it"
    options = stream_options(context, boundary.topic, query, noted) | {
        "admission": "timestamp",
        "admitUpTo": context.checkpoint(name),
    }
    columns, written = context.schemas[name], context.written_rows(name)
    options |= row_decoding_options(columns, written.format, written.schemas)
    reader = read_stream(context.spark, name).format("catchment").options(**options)
    wanted = StructType().add("key", "binary") if with_key else StructType()
    rows = reader.schema(wanted.add("value", value_schema(columns, written.format, written.schemas))).load()
    return with_watermark(rows.select(*record_key(with_key), *row_columns(columns)), boundary)


def read_boundary_once(context: RunContext, name: str, ends: Mapping[str, Mapping[str, int]]) -> DataFrame:
    """The rows of a boundary from its beginning up to given offsets, as a batch read."""
    boundary = context.graph.boundary(name)
    assert boundary is not None, f"{name} has a topic if a query reads it"
    options = context.connection | {
        "subscribe": boundary.topic,
        "endingOffsets": json.dumps(ends),
        "kafka.isolation.level": "read_committed",
    }
    columns, written = context.schemas[name], context.written_rows(name)
    options |= row_decoding_options(columns, written.format, written.schemas)
    reader = context.spark.read.format("catchment").options(**options)
    wanted = StructType().add("value", value_schema(columns, written.format, written.schemas))
    return reader.schema(wanted).load().select(*row_columns(columns))


def with_watermark(rows: DataFrame, boundary: Boundary) -> DataFrame:
    """Rows with the boundary's watermark; none of them is later than it allows."""
    if boundary.event_time is None:
        return rows
    return rows.withWatermark(boundary.event_time, interval(boundary.lateness_ms))


def record_key(with_key: bool) -> list[Column]:
    """The column of a record's key, if it is read."""
    return [F.col("key").alias(RECORD_KEY)] if with_key else []
