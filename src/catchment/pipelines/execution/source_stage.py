"""A source stage: events in, and each of them out to one of three topics: the boundary, the quarantine, or the late ones.

All three are written by one query in the same transactions, so every event is in exactly one of them, or is known to be a
duplicate. The source is read once: what is set aside goes the same way through Spark's plan as what is not, with a time and a key
that let the deduplication pass it by.

Late is what Spark itself would drop: an event time not after the watermark of the batch, which Spark writes down before it runs
the batch, so that a repeated batch judges alike.
"""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType, TimestampType

from catchment.client.errors import SettingsError
from catchment.pipelines.declaration.durations import interval
from catchment.pipelines.declaration.specification import Check
from catchment.pipelines.execution.quarantine import READING, as_it_came, headers, undecodable
from catchment.pipelines.execution.rows.boundaries import as_key, stream_options
from catchment.pipelines.execution.rows.calendar_years import beyond_calendar
from catchment.pipelines.execution.rows.decoding import decoding_options
from catchment.pipelines.execution.rows.row_values import row_values
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.execution.session import read_stream
from catchment.pipelines.graph import SourceStage

RECORD: Final = "_record"
DECODE_ERROR: Final = "_decode_error"
WATERMARK: Final = "_watermark"
BATCH_TIME: Final = "_batch_time"
ERROR: Final = "_error"
LATE: Final = "_late"
TIME: Final = "_time"
ASIDE: Final = "_aside"
KEY: Final = "_key"
CHECKS_METRIC: Final = "checks"
STOPPED_BY_CHECK: Final = "stopped by a check"
_BESIDE: Final = (RECORD, DECODE_ERROR, WATERMARK, BATCH_TIME)
_RESERVED: Final = frozenset({*_BESIDE, ERROR, LATE, TIME, ASIDE, KEY})


def source_stage_records(context: RunContext, source_stage: SourceStage) -> DataFrame:
    """The streaming rows that the sink is to write."""
    return cleaned_records(context, source_stage, _events(context, source_stage))


def cleaned_records(context: RunContext, source_stage: SourceStage, events: DataFrame) -> DataFrame:
    """The same from any stream of events that has the source's columns."""
    rows = _typed(events, source_stage)
    context.schemas[source_stage.name] = StructType(rows.schema.fields[len(_BESIDE) :])
    check_columns(context.schemas[source_stage.name], source_stage)
    judged = _relieved(_judged(rows, source_stage, context.schemas[source_stage.name]), context, source_stage)
    kept = _without_duplicates(_watermarked(judged, source_stage), source_stage)
    return _routed(kept, context, source_stage, context.schemas[source_stage.name])


def _events(context: RunContext, source_stage: SourceStage) -> DataFrame:
    """The records of the source's topic."""
    source = source_stage.source
    options = (
        stream_options(context, source.topic, source_stage.name)
        | decoding_options(source, context.folder)
        | {
            "startingOffsets": source.start,
            "admission": "timestamp",
            "watermarkFrom": context.checkpoint(source_stage.name),
        }
        | READING
    )
    return read_stream(context.spark, source_stage.source_name).format("catchment").options(**options).load()


def _typed(rows: DataFrame, source_stage: SourceStage) -> DataFrame:
    """The event's own columns, and beside them the record as it came."""
    value = ["value"] if source_stage.source.format == "text" else ["value.*"]
    return rows.select(
        as_it_came().alias(RECORD),
        F.coalesce(undecodable(), F.when(F.col("value").isNull(), F.lit("has no value"))).alias(DECODE_ERROR),
        F.col("watermark").alias(WATERMARK),
        F.col("batchTime").alias(BATCH_TIME),
        *value,
    )


def _judged(rows: DataFrame, source_stage: SourceStage, schema: StructType) -> DataFrame:
    """Each row with the reason why it is set aside, if there is one, and the time that Spark shall judge it by."""
    source = source_stage.source
    failing = [(one, ~F.coalesce(F.expr(one.expect), F.lit(False))) for one in source_stage.checks]
    reasons = [F.col(DECODE_ERROR), *beyond_calendar(schema, source.format)]
    if source_stage.dedupe:
        # Spark takes rows without a key for duplicates of one another.
        is_nameless = reduce(and_, (F.col(f"`{name}`").isNull() for name in source_stage.dedupe))
        reasons.append(F.when(is_nameless, F.lit(f"has no {' and no '.join(source_stage.dedupe)}")))
    if source.event_time is not None:
        time = F.col(source.event_time)
        most_ahead = F.expr(f"INTERVAL '{source.ahead / 1000}' SECOND")
        reasons.append(F.when(time.isNull(), F.lit(f"has no {source.event_time}")))
        too_far = F.concat(F.lit(f"{source.event_time} is far ahead of the record's own time: "), time.cast("string"))
        reasons.append(F.when(time > F.col(f"{RECORD}.timestamp") + most_ahead, too_far))
    reasons += [F.when(fails, _failed(one)) for one, fails in failing]
    rows = rows.withColumn(ERROR, F.coalesce(*reasons))
    if any(one.stop_above is not None for one in source_stage.checks):
        is_row = F.col(DECODE_ERROR).isNull()
        failed = [F.count_if(is_row & fails).alias(f"check{number}") for number, (_, fails) in enumerate(failing)]
        rows = rows.observe(CHECKS_METRIC, F.count_if(is_row).alias("rows"), *failed)
    rows = _dropped(rows, source_stage, failing)
    if source.event_time is None or source.lateness is None:
        return rows.withColumn(LATE, F.lit(False))
    late = F.col(ERROR).isNull() & (F.col(source.event_time) <= F.col(WATERMARK))
    rows = rows.withColumn(LATE, F.coalesce(late, F.lit(False)))
    # Spark counts its watermark in milliseconds: a microsecond is after it, and does not move it.
    just_in_time = F.col(WATERMARK) + F.expr("INTERVAL '0.000001' SECOND")
    return rows.withColumn(TIME, F.when(_is_aside(), just_in_time).otherwise(F.col(source.event_time)))


def _failed(check: Check) -> Column:
    """What is said of a row that fails a check; or, if the check is to stop the pipeline, said by failing."""
    said = F.lit(f"failed check: {check.expect}")
    return F.raise_error(F.concat(F.lit(f"{STOPPED_BY_CHECK}: "), said)) if check.otherwise == "stop" else said


def _dropped(rows: DataFrame, source_stage: SourceStage, failing: list[tuple[Check, Column]]) -> DataFrame:
    """Without what is to be dropped; with `fail`, a row that has an error fails the query."""
    for one, fails in failing:
        if one.otherwise == "drop":
            rows = rows.where(~fails | F.col(DECODE_ERROR).isNotNull())
    if source_stage.source.on_error == "drop":
        rows = rows.where(F.col(DECODE_ERROR).isNull())
    if source_stage.source.on_error == "fail":
        where = F.format_string("record %s-%d@%d ", f"{RECORD}.topic", f"{RECORD}.partition", f"{RECORD}.offset")
        failure = F.raise_error(F.concat(where, F.col(DECODE_ERROR)))
        rows = rows.withColumn(ERROR, F.when(F.col(DECODE_ERROR).isNotNull(), failure).otherwise(F.col(ERROR)))
    return rows


def _relieved(rows: DataFrame, context: RunContext, source_stage: SourceStage) -> DataFrame:
    """Without the record beside what is kept, but for the key where it is needed; what is set aside gets one of its own.

    The rest is the larger half of a row. It must go before the watermark, where Spark copies rows, and before its shuffle.
    """
    rows_as = context.written_rows(source_stage.name).format
    key = as_key(source_stage.boundary.key, rows_as) if source_stage.boundary.key else F.col(f"{RECORD}.key")
    is_aside = _is_aside()
    rows = rows.withColumn(KEY, F.when(is_aside, F.col(f"{RECORD}.key")).otherwise(key))
    if source_stage.dedupe:
        # No other row has it.
        position = F.struct(f"{RECORD}.topic", f"{RECORD}.partition", f"{RECORD}.offset")
        rows = rows.withColumn(ASIDE, F.when(is_aside, position))
    return rows.withColumn(RECORD, F.when(is_aside, F.col(RECORD)))


def _watermarked(rows: DataFrame, source_stage: SourceStage) -> DataFrame:
    source = source_stage.source
    if source.event_time is None or source.lateness is None:
        return rows
    return rows.withWatermark(TIME, interval(source.lateness))


def _is_aside() -> Column:
    return F.col(ERROR).isNotNull() | F.col(LATE)


def _without_duplicates(rows: DataFrame, source_stage: SourceStage) -> DataFrame:
    return rows.dropDuplicatesWithinWatermark([*source_stage.dedupe, ASIDE]) if source_stage.dedupe else rows


def _routed(rows: DataFrame, context: RunContext, source_stage: SourceStage, columns: StructType) -> DataFrame:
    """One record a row, for the topic where it belongs."""
    is_broken, is_late, is_aside = F.col(ERROR).isNotNull(), F.col(LATE), _is_aside()
    topic = (
        F.when(is_broken, context.graph.quarantine)
        .when(is_late, context.graph.late)
        .otherwise(source_stage.boundary.topic)
    )
    reason = F.coalesce(F.col(ERROR), F.concat(F.lit("late: watermark "), F.col(WATERMARK).cast("string")))
    rows_as = context.written_rows(source_stage.name).format
    value, as_it_came = row_values(columns, rows_as), F.when(is_aside, F.col(f"{RECORD}.value"))
    values = (
        [as_it_came.otherwise(value).alias("value")]
        if rows_as == "json"
        # The sink encodes rows, and writes the bytes of records that have none.
        else [F.when(~is_aside, value).alias("value"), as_it_came.alias("valueBytes")]
    )
    return rows.select(
        topic.alias("topic"),
        F.col(KEY).alias("key"),
        *values,
        F.when(is_aside, headers(context, source_stage.name, RECORD, reason)).alias("headers"),
        # As a value in the plan it would be a new program for every batch, which the JVM compiles from the start.
        F.col(BATCH_TIME).alias("timestamp"),
    )


def check_reserved(schema: StructType, source_stage: SourceStage) -> None:
    """SettingsError where a source has columns with the names of those that are put beside them here."""
    if taken := _RESERVED & set(schema.fieldNames()):
        raise SettingsError(
            f"source {source_stage.source_name} has columns named {sorted(taken)}", "Rename them: they are ours."
        )


def check_columns(schema: StructType, source_stage: SourceStage) -> None:
    """What can only be told when the columns are known."""
    names = schema.fieldNames()
    check_reserved(schema, source_stage)
    wanted = [
        *([source_stage.source.event_time] if source_stage.source.event_time else []),
        *source_stage.dedupe,
        *source_stage.boundary.key,
    ]
    for name in wanted:
        if name not in names:
            raise SettingsError(
                f"source {source_stage.source_name} has no column {name}", f"It has {', '.join(names)}."
            )
    if source_stage.source.event_time and not isinstance(
        schema[source_stage.source.event_time].dataType, TimestampType
    ):
        kind = schema[source_stage.source.event_time].dataType.simpleString()
        raise SettingsError(
            f"the event time {source_stage.source.event_time} of source {source_stage.source_name} is a {kind}",
            "Declare it as timestamp: text as in ISO 8601 is read as one.",
        )
