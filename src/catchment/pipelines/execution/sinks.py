"""A sink: the rows of a stage written to a store, a lake, a topic, or an alert.

Each has a query and a checkpoint of its own, so a slow sink holds up none of the others. A store or a lake takes the id of
the query and the number of the batch together with the rows, and changes nothing if it has them already.

A stage with state keeps its state only if every row of its batch is computed. Since 4.1 Spark checks that, and ends the query for good
where a row was not: also for a repeated batch that is already written. So `for_each_batch` computes what a handler has not.

Spark searches the message of a handler's error for signs that the query is only being stopped, with a regular expression that recurses for
every character. The text of a JVM error, with its whole stack trace, overflows the thread's stack there, and the query ends without an
error, as if it were done. So `for_each_batch` raises a short message.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from catchment.pipelines.declaration.addresses import expanded
from catchment.pipelines.declaration.specification import Alert, LakeSink, RowFormat, StoreSink, TopicSink
from catchment.pipelines.execution.alerting import alert_candidates
from catchment.pipelines.execution.claiming import claim_lake
from catchment.pipelines.execution.rows.boundaries import sink_options, to_records
from catchment.pipelines.execution.rows.row_values import encoding_options
from catchment.pipelines.execution.run_context import RunContext, query_id
from catchment.pipelines.execution.spark_errors import cause_of
from catchment.pipelines.execution.stages import input_rows, stage_rows
from catchment.pipelines.execution.store_writer import StoreWriter
from catchment.pipelines.graph import Sink
from catchment.pipelines.lakes.delta import DeltaLake
from catchment.pipelines.lakes.lake_opening import open_lake
from catchment.pipelines.lakes.maintenance import MaintenanceSchedule
from catchment.spark.checkpoint.progress import SparkCheckpoint

_MAINTAIN_EVERY_S: Final = 600.0


def sink_rows(context: RunContext, sink: Sink, query: str) -> tuple[DataFrame, str]:
    """The rows of a sink, and Spark's output mode for them."""
    stage = context.graph.processing_stages.get(sink.reads)
    if stage is not None and stage.boundary is None:
        return stage_rows(context, stage, query), stage.declaration.mode
    # A record that is copied from topic to topic keeps its key, and with it its order among the others of that key.
    with_key = isinstance(sink.target, TopicSink) and not _key(context, sink, sink.target)
    return input_rows(context, sink.reads, query, with_key=with_key), "append"


def sink_writer(context: RunContext, sink: Sink, query: str) -> DataStreamWriter:
    """A query that is ready to start, except for its trigger."""
    rows, mode = sink_rows(context, sink, query)
    target = sink.target
    handler: BatchHandler
    if isinstance(target, TopicSink):
        key = _key(context, sink, target)
        if mode == "append":
            return topic_writer(context, to_records(rows, target.topic, key), query)
        handler = changelog_handler(context, target.topic, key, query)
    elif isinstance(target, Alert):
        rows, alerts = alert_candidates(context, sink, rows)
        # An alert on silence appends rows and updates none.
        mode, handler = ("append" if target.absent_for is not None else mode), alerts.handle
    else:
        handler = _handler(context, sink, target, rows, query)
    writer = rows.writeStream.outputMode(mode).option("checkpointLocation", context.checkpoint(query))
    return writer.foreachBatch(for_each_batch(handler))


def topic_writer(context: RunContext, records: DataFrame, query: str) -> DataStreamWriter:
    """Records into topics, each exactly once."""
    options = sink_options(context, query) | encoding_options(records)
    return records.writeStream.format("catchment").outputMode("append").options(**options)


def changelog_handler(
    context: RunContext, topic: str, key: tuple[str, ...], query: str, rows_as: RowFormat = "json"
) -> BatchHandler:
    """Changed rows into a topic, each exactly once. Spark does not let a sink in Python take them from it directly."""
    options = sink_options(context, query)

    def handle(rows: DataFrame, batch_id: int) -> bool:
        # In here the current time is not the batch's. That is in its plan, and the same when the batch is repeated.
        time_ms = SparkCheckpoint.at(context.checkpoint(query)).plan(batch_id).time_ms
        records = to_records(rows, topic, key, time_ms, rows_as)
        records.write.format("catchment").options(**options, **encoding_options(records)).mode("append").save()
        return True

    return handle


def _key(context: RunContext, sink: Sink, target: TopicSink) -> tuple[str, ...]:
    """The columns that are the key of a topic's records."""
    return target.key or context.graph.key_of(sink.reads)


def _handler(
    context: RunContext, sink: Sink, target: StoreSink | LakeSink, rows: DataFrame, query: str
) -> BatchHandler:
    if isinstance(target, StoreSink):
        return StoreWriter(context, sink, target, rows.schema, query).handle
    return _lake_handler(context, target, query)


def _lake_handler(context: RunContext, target: LakeSink, query: str) -> BatchHandler:
    lake = open_lake(expanded(target.lake, context.folder), kind=target.format, partition_by=target.partition_by)
    maintenance = MaintenanceSchedule(lake, _MAINTAIN_EVERY_S) if isinstance(lake, DeltaLake) else None

    is_claimed = False

    def handle(rows: DataFrame, batch_id: int) -> bool:
        nonlocal is_claimed
        if not is_claimed:
            claim_lake(context, query, lake)
            is_claimed = True
        is_new = lake.write(rows, query_id(rows), batch_id)
        if maintenance is not None:
            maintenance.run_if_due()
        return is_new

    return handle


_LONGEST: Final = 2000
BatchHandler = Callable[[DataFrame, int], bool]
"""Handles a batch with its number; True if it has computed every row of the batch."""
ForeachBatch = Callable[[DataFrame, int], None]


class BatchFailed(Exception):
    """Names the class of the error that a batch failed with, and its message, as the last line of a traceback does."""


def for_each_batch(handler: BatchHandler) -> ForeachBatch:
    """The function for every query's `foreachBatch`: all rows are computed, and errors name their cause alone."""

    @wraps(handler)
    def handle(rows: DataFrame, batch_id: int) -> None:
        try:
            if not handler(rows, batch_id):
                _compute_all(rows)
        except Exception as error:
            cause = cause_of(error)
            place = f" ({cause.place})" if cause.place else ""
            # Spark's regular expression begins at the name of this class.
            message = cause.message.replace("py4j.protocol.", "")[:_LONGEST]
            raise BatchFailed(f"{cause.kind or 'RuntimeError'}: {message}{place}") from None

    return handle


def _compute_all(rows: DataFrame) -> None:
    """Compute every row and keep none."""
    rows.write.format("noop").mode("append").save()
