"""Records that go to the quarantine topic, with headers that say why, which stage found them, and where they came from.

Behaviour
    A record that does not decode goes there unchanged, the same for events and for tables. Queries that join a table read its topic
    themselves and skip its broken records, so one query of its own brings those into the quarantine, exactly once.
    A row that a store can never take is written as JSON, with headers that name the sink. It was computed, so there is no original record:
    a replay skips it. Such rows are written under the number of their batch, which is in the query's checkpoint before any of them can be
    seen: a repeated batch quarantines nothing a second time. And they are written before the store records that number, so none is missing.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Final

import pyarrow
from pyarrow import compute
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructField, StructType

from catchment.pipelines.declaration.addresses import without_credentials
from catchment.pipelines.declaration.specification import StoreSink
from catchment.pipelines.execution.rows.boundaries import as_key, sink_options, stream_options
from catchment.pipelines.execution.rows.calendar_years import beyond_calendar
from catchment.pipelines.execution.rows.decoding import decoding_options
from catchment.pipelines.execution.rows.row_values import as_json
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.execution.session import read_stream
from catchment.pipelines.graph import Sink, TableQuarantine
from catchment.spark.checkpoint.progress import SparkCheckpoint

READING: Final = {"onDecodeError": "null", "includeBytes": "true", "includeHeaders": "true"}
"""Source options for records that may have to be quarantined. The number of the batch comes with `watermarkFrom`."""
_NO_HEADERS: Final = "array<struct<key:string,value:binary>>"


def original_record() -> Column:
    """The original record, with all of its fields."""
    value = F.col("valueBytes").alias("value")
    return F.struct("key", value, "headers", "topic", "partition", "offset", "timestamp", "batchId")


def undecodable() -> Column:
    """The error of a record that does not decode; null if it does."""
    return F.when(F.col("valueError").isNotNull(), F.concat(F.lit("does not decode: "), F.col("valueError")))


def headers(context: RunContext, stage: str, record: str, reason: Column) -> Column:
    """The headers of the record and then ours, as text: arrays, even null ones, double the time that Spark needs to pass
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
    """The headers that Catchment adds."""
    return F.array(
        *(
            F.struct(F.lit(f"catchment.{name}").alias("key"), fact.cast("string").cast("binary").alias("value"))
            for name, fact in facts.items()
        )
    )


_RECORD: Final = "_record"
_ERROR: Final = "_error"
_BATCH_TIME: Final = "_batch_time"


def table_quarantine_records(context: RunContext, source_stage: TableQuarantine) -> DataFrame:
    """The streaming rows that the sink is to write."""
    options = stream_options(context, source_stage.table.topic, source_stage.name) | decoding_options(
        source_stage.table, context.folder
    )
    options |= READING | {"watermarkFrom": context.checkpoint(source_stage.name)}
    rows = read_stream(context.spark, source_stage.table_name).format("catchment").options(**options).load()
    return broken_records(context, source_stage, rows)


def broken_records(context: RunContext, source_stage: TableQuarantine, rows: DataFrame) -> DataFrame:
    """The same from any stream of the table's records. A record without a value deletes a row, and is valid."""
    typed = rows.select(
        original_record().alias(_RECORD),
        undecodable().alias(_ERROR),
        F.col("batchTime").alias(_BATCH_TIME),
        *(["value"] if source_stage.table.format == "text" else ["value.*"]),
    )
    schema = StructType(typed.schema.fields[3:])
    reason = F.coalesce(F.col(_ERROR), *beyond_calendar(schema, source_stage.table.format))
    return typed.where(reason.isNotNull()).select(
        F.lit(context.graph.quarantine).alias("topic"),
        F.col(f"{_RECORD}.key").alias("key"),
        F.col(f"{_RECORD}.value").alias("value"),
        headers(context, source_stage.name, _RECORD, reason).alias("headers"),
        F.col(_BATCH_TIME).alias("timestamp"),
    )


_logger = logging.getLogger(__name__)


_REASON: Final = "__catchment_unstorable"


class UnstorableRows:
    """The unstorable rows of one sink."""

    def __init__(self, context: RunContext, sink: Sink, target: StoreSink, key: tuple[str, ...]) -> None:
        self._context = context
        self._sink = sink
        self._declared = target
        self._key = key

    def quarantine(self, batch: DataFrame, rows: pyarrow.Table, reasons: pyarrow.ChunkedArray, batch_id: int) -> None:
        """Write rows of a batch to the quarantine, once, each with its reason."""
        context, query = self._context, self._sink.query
        with_reasons = rows.append_column(_REASON, compute.cast(reasons, pyarrow.string()))
        schema = StructType([*batch.schema.fields, StructField(_REASON, StringType())])
        # In a single task, whatever the session's cores: a repeated batch must have the same tasks.
        found = batch.sparkSession.createDataFrame(with_reasons, schema).coalesce(1)
        time_ms = SparkCheckpoint.at(context.checkpoint(query)).plan(batch_id).time_ms
        records = found.select(
            F.lit(context.graph.quarantine).alias("topic"),
            (as_key(self._key) if self._key else F.lit(None).cast("binary")).alias("key"),
            as_json(batch.columns).alias("value"),
            F.to_json(own_headers(self._facts(batch_id))).alias("headers"),
            F.timestamp_millis(F.lit(time_ms)).alias("timestamp"),
        )
        records.write.format("catchment").options(**sink_options(context, query)).mode("append").save()
        summary = f"{rows.num_rows} rows of batch {batch_id} are in topic {context.graph.quarantine}"
        _logger.warning("%s: %s cannot store them: %s", summary, self._where, reasons[0].as_py())

    @property
    def _where(self) -> str:
        return f"table {self._declared.table} of store {without_credentials(self._declared.store)}"

    def _facts(self, batch_id: int) -> dict[str, Column]:
        advice = f". Give such rows another value in {self._declared.from_}, or leave them out there."
        error = F.concat(F.lit(f"cannot be stored: in {self._where}, "), F.col(_REASON), F.lit(advice))
        return {
            "error": error,
            "pipeline": F.lit(self._context.pipeline),
            "stage": F.lit(self._declared.from_),
            "sink": F.lit(self._sink.name),
            "batch": F.lit(batch_id),
        }
