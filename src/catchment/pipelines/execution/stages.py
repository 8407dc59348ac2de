"""A stage's code, applied to what it reads."""

from __future__ import annotations

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from catchment.client.errors import SettingsError
from catchment.pipelines.execution.rows.boundaries import read_boundary, record_key, stream_options
from catchment.pipelines.execution.rows.calendar_years import beyond_calendar
from catchment.pipelines.execution.rows.decoding import decoding_options
from catchment.pipelines.execution.rows.event_times import observed_event_times
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.execution.session import read_stream
from catchment.pipelines.graph import ProcessingStage


def stage_rows(context: RunContext, stage: ProcessingStage, query: str) -> DataFrame:
    """The streaming result of a stage, for the query that computes it."""
    frames = [input_rows(context, one, query, _tables(context, stage)) for one in stage.inputs]
    return apply(context, stage, frames)


def apply(context: RunContext, stage: ProcessingStage, frames: list[DataFrame]) -> DataFrame:
    """The stage's function or SQL on given rows, streaming or not."""
    result = computed(context, stage, frames)
    missing = [name for name in stage.declaration.key if name not in result.columns]
    if missing:
        raise SettingsError(
            f"the result of stage {stage.name} has no column {missing[0]}, which is part of its key",
            f"It has {', '.join(result.columns)}.",
        )
    return result


def computed(context: RunContext, stage: ProcessingStage, frames: list[DataFrame]) -> DataFrame:
    """The result of a stage, without a check of its columns."""
    if stage.declaration.function is not None:
        result = stage.declaration.function(*frames)
        if not isinstance(result, DataFrame):
            raise SettingsError(
                f"the function of stage {stage.name} returned {type(result).__name__}", "It must return a DataFrame."
            )
    elif stage.declaration.sql is not None:
        result = sql_rows(context.spark, stage.declaration.sql, dict(zip(stage.names, frames, strict=True)))
    else:
        result = frames[0]
    return result


def input_rows(
    context: RunContext, name: str, query: str, tables: tuple[str, ...] = (), *, with_key: bool = False
) -> DataFrame:
    """The rows of one input: a table, a source without a source stage, or a boundary; optionally with the key of records."""
    if name in context.graph.tables:
        return _table(context, name, query)
    if name in context.graph.sources:
        return _source(context, name, query, tables, with_key=with_key)
    rows = read_boundary(context, name, query, tables, with_key=with_key)
    boundary = context.graph.boundary(name)
    if query not in context.graph.sinks_by_query or boundary is None or boundary.event_time is None:
        return rows
    return observed_event_times(rows, name, boundary.event_time)


def table_rows_once(context: RunContext, name: str) -> DataFrame:
    """A table as it is now, as a batch read."""
    return _table(context, name, None)


def _table(context: RunContext, name: str, query: str | None) -> DataFrame:
    """A table as of each batch of a query, or as it is now."""
    table = context.graph.tables[name]
    options = (
        context.connection
        | decoding_options(table, context.folder)
        | {
            "topic": table.topic,
            "tableKey": ",".join(table.key),
            "kafka.isolation.level": "read_committed",
        }
    )
    if table.on_error != "fail":
        # Broken records are skipped; the table's quarantine query quarantines them.
        options["onDecodeError"] = "null"
    if query is not None:
        options["checkpointLocation"] = context.checkpoint(query)
    rows = context.spark.read.format("catchment-table").options(**options).load().select("value.*")
    if table.on_error != "fail":
        for wrong in beyond_calendar(rows.schema, table.format):
            rows = rows.where(wrong.isNull())
    # Spark does not know a table's size, and would sort and shuffle the stream to join it.
    return F.broadcast(rows)


def _source(context: RunContext, name: str, query: str, tables: tuple[str, ...], *, with_key: bool) -> DataFrame:
    source = context.graph.sources[name]
    options = stream_options(context, source.topic, query, tables) | decoding_options(source, context.folder)
    options["startingOffsets"] = source.start
    rows = read_stream(context.spark, name).format("catchment").options(**options).load()
    return rows.select(*record_key(with_key), "value" if source.format == "text" else "value.*")


def _tables(context: RunContext, stage: ProcessingStage) -> tuple[str, ...]:
    """The topics of the tables that a processing stage joins."""
    return tuple(context.graph.tables[one].topic for one in stage.inputs if one in context.graph.tables)


def sql_rows(spark: SparkSession, sql: str, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """The rows of an SQL statement; `inputs` has the tables that it may name.

    All stages share a session. Spark resolves names at once, so the views are dropped before another stage could find them and
    read the input of another query.
    """
    try:
        for name, rows in inputs.items():
            rows.createOrReplaceTempView(f"`{name}`")
        return spark.sql(sql)
    finally:
        for name in inputs:
            spark.catalog.dropTempView(name)
