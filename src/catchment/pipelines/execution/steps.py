"""A stage's code, applied to what it reads."""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from catchment.client.errors import SettingsError
from catchment.pipelines.execution.boundaries import read_boundary, record_key, stream_options
from catchment.pipelines.execution.calendar_years import beyond_calendar
from catchment.pipelines.execution.decoding import decoding_options
from catchment.pipelines.execution.event_times import observed_event_times
from catchment.pipelines.execution.pipeline_session import read_stream
from catchment.pipelines.execution.stage_sql import sql_rows
from catchment.pipelines.execution.workplace import Workplace
from catchment.pipelines.graph import Step


def step_rows(place: Workplace, step: Step, query: str) -> DataFrame:
    """The streaming result of a stage, for the query that computes it."""
    frames = [input_rows(place, one, query, _tables(place, step)) for one in step.inputs]
    return apply(place, step, frames)


def apply(place: Workplace, step: Step, frames: list[DataFrame]) -> DataFrame:
    """The stage's function or SQL on given rows, streaming or not."""
    result = computed(place, step, frames)
    missing = [name for name in step.stage.key if name not in result.columns]
    if missing:
        raise SettingsError(
            f"the result of stage {step.name} has no column {missing[0]}, which is part of its key",
            f"It has {', '.join(result.columns)}.",
        )
    return result


def computed(place: Workplace, step: Step, frames: list[DataFrame]) -> DataFrame:
    """The same, whether or not it has the columns that are expected of it."""
    if step.stage.function is not None:
        result = step.stage.function(*frames)
        if not isinstance(result, DataFrame):
            raise SettingsError(
                f"the function of stage {step.name} returned {type(result).__name__}", "It must return a DataFrame."
            )
    elif step.stage.sql is not None:
        result = sql_rows(place.spark, step.stage.sql, dict(zip(step.names, frames, strict=True)))
    else:
        result = frames[0]
    return result


def input_rows(
    place: Workplace, name: str, query: str, tables: tuple[str, ...] = (), *, with_key: bool = False
) -> DataFrame:
    """What one input gives: a table, a source that needs no intake, or a boundary; with the key of records, if asked for."""
    if name in place.graph.tables:
        return _table(place, name, query)
    if name in place.graph.sources:
        return _source(place, name, query, tables, with_key=with_key)
    rows = read_boundary(place, name, query, tables, with_key=with_key)
    boundary = place.graph.boundary(name)
    if query not in place.graph.outlets_by_query or boundary is None or boundary.event_time is None:
        return rows
    return observed_event_times(rows, name, boundary.event_time)


def table_rows_once(place: Workplace, name: str) -> DataFrame:
    """A table as it is now, at rest."""
    return _table(place, name, None)


def _table(place: Workplace, name: str, query: str | None) -> DataFrame:
    """A table as of each batch of a query, or as it is now."""
    table = place.graph.tables[name]
    options = (
        place.connection
        | decoding_options(table, place.folder)
        | {
            "topic": table.topic,
            "tableKey": ",".join(table.key),
            "kafka.isolation.level": "read_committed",
        }
    )
    if table.on_error != "fail":
        # What is broken is passed by; who sets it aside is the table's intake.
        options["onDecodeError"] = "null"
    if query is not None:
        options["checkpointLocation"] = place.checkpoint(query)
    rows = place.spark.read.format("catchment-table").options(**options).load().select("value.*")
    if table.on_error != "fail":
        for wrong in beyond_calendar(rows.schema, table.format):
            rows = rows.where(wrong.isNull())
    # Spark knows nothing of a table's size, and would sort and shuffle the stream to join it.
    return F.broadcast(rows)


def _source(place: Workplace, name: str, query: str, tables: tuple[str, ...], *, with_key: bool) -> DataFrame:
    source = place.graph.sources[name]
    options = stream_options(place, source.topic, query, tables) | decoding_options(source, place.folder)
    options["startingOffsets"] = source.start
    rows = read_stream(place.spark, name).format("catchment").options(**options).load()
    return rows.select(*record_key(with_key), "value" if source.format == "text" else "value.*")


def _tables(place: Workplace, step: Step) -> tuple[str, ...]:
    """The topics of the tables that a step joins."""
    return tuple(place.graph.tables[one].topic for one in step.inputs if one in place.graph.tables)
