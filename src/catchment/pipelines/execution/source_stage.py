"""A source stage: it writes each event of a source to one of three topics: the boundary, the quarantine, or the late topic.

One query writes all three in the same transactions, so every event is in exactly one of them, or is a known
duplicate. The source is read once: quarantined records take the same path through Spark's plan as the others, with a time and a key
that keep the deduplication from dropping them.

An event is late if Spark itself would drop it: its time is not after the watermark of the batch. Spark stores the watermark before it runs
the batch, so a repeated batch gives the same result.
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
from catchment.pipelines.execution.quarantine import READING, headers, original_record, undecodable
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
QUARANTINED: Final = "_aside"
KEY: Final = "_key"
CHECKS_METRIC: Final = "checks"
STOPPED_BY_CHECK: Final = "stopped by a check"
_BESIDE: Final = (RECORD, DECODE_ERROR, WATERMARK, BATCH_TIME)
_RESERVED: Final = frozenset({*_BESIDE, ERROR, LATE, TIME, QUARANTINED, KEY})


def source_stage_records(context: RunContext, source_stage: SourceStage) -> DataFrame:
    """The streaming rows that the sink is to write."""
    return cleaned_records(context, source_stage, _events(context, source_stage))


def cleaned_records(context: RunContext, source_stage: SourceStage, events: DataFrame) -> DataFrame:
    """The same from any stream of events that has the source's columns."""
    rows = _typed(events, source_stage)
    context.schemas[source_stage.name] = StructType(rows.schema.fields[len(_BESIDE) :])
    check_columns(context.schemas[source_stage.name], source_stage)
    judged = _without_records(_checked(rows, source_stage, context.schemas[source_stage.name]), context, source_stage)
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
    """The event's own columns, and beside them the original record."""
    value = ["value"] if source_stage.source.format == "text" else ["value.*"]
    return rows.select(
        original_record().alias(RECORD),
        F.coalesce(undecodable(), F.when(F.col("value").isNull(), F.lit("has no value"))).alias(DECODE_ERROR),
        F.col("watermark").alias(WATERMARK),
        F.col("batchTime").alias(BATCH_TIME),
        *value,
    )


def _checked(rows: DataFrame, source_stage: SourceStage, schema: StructType) -> DataFrame:
    """Each row with the reason for its quarantine, if there is one, and the time for Spark's watermark."""
    source = source_stage.source
    failing = [(one, ~F.coalesce(F.expr(one.expect), F.lit(False))) for one in source_stage.checks]
    reasons = [F.col(DECODE_ERROR), *beyond_calendar(schema, source.format)]
    if source_stage.dedupe:
        # Spark treats rows without a key as duplicates of one another.
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
    # Spark's watermark is in milliseconds: a microsecond later is in time, and does not move it.
    just_in_time = F.col(WATERMARK) + F.expr("INTERVAL '0.000001' SECOND")
    return rows.withColumn(TIME, F.when(_is_quarantined(), just_in_time).otherwise(F.col(source.event_time)))


def _failed(check: Check) -> Column:
    """The error of a row that fails a check; if the check stops the pipeline, it is raised."""
    error = F.lit(f"failed check: {check.expect}")
    return F.raise_error(F.concat(F.lit(f"{STOPPED_BY_CHECK}: "), error)) if check.otherwise == "stop" else error


def _dropped(rows: DataFrame, source_stage: SourceStage, failing: list[tuple[Check, Column]]) -> DataFrame:
    """Without rows that are dropped; with `fail`, a row with an error fails the query."""
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


def _without_records(rows: DataFrame, context: RunContext, source_stage: SourceStage) -> DataFrame:
    """Drop the original record of rows that are not quarantined, except for a key that is needed; quarantined rows get a unique key.

    The original record is the larger half of a row. It must go before the watermark, where Spark copies rows, and before its shuffle.
    """
    rows_as = context.written_rows(source_stage.name).format
    key = as_key(source_stage.boundary.key, rows_as) if source_stage.boundary.key else F.col(f"{RECORD}.key")
    is_quarantined = _is_quarantined()
    rows = rows.withColumn(KEY, F.when(is_quarantined, F.col(f"{RECORD}.key")).otherwise(key))
    if source_stage.dedupe:
        # The position is unique.
        position = F.struct(f"{RECORD}.topic", f"{RECORD}.partition", f"{RECORD}.offset")
        rows = rows.withColumn(QUARANTINED, F.when(is_quarantined, position))
    return rows.withColumn(RECORD, F.when(is_quarantined, F.col(RECORD)))


def _watermarked(rows: DataFrame, source_stage: SourceStage) -> DataFrame:
    source = source_stage.source
    if source.event_time is None or source.lateness is None:
        return rows
    return rows.withWatermark(TIME, interval(source.lateness))


def _is_quarantined() -> Column:
    return F.col(ERROR).isNotNull() | F.col(LATE)


def _without_duplicates(rows: DataFrame, source_stage: SourceStage) -> DataFrame:
    return rows.dropDuplicatesWithinWatermark([*source_stage.dedupe, QUARANTINED]) if source_stage.dedupe else rows


def _routed(rows: DataFrame, context: RunContext, source_stage: SourceStage, columns: StructType) -> DataFrame:
    """One record for each row, for its topic."""
    is_broken, is_late, is_quarantined = F.col(ERROR).isNotNull(), F.col(LATE), _is_quarantined()
    topic = (
        F.when(is_broken, context.graph.quarantine)
        .when(is_late, context.graph.late)
        .otherwise(source_stage.boundary.topic)
    )
    reason = F.coalesce(F.col(ERROR), F.concat(F.lit("late: watermark "), F.col(WATERMARK).cast("string")))
    rows_as = context.written_rows(source_stage.name).format
    value, original_record = row_values(columns, rows_as), F.when(is_quarantined, F.col(f"{RECORD}.value"))
    values = (
        [original_record.otherwise(value).alias("value")]
        if rows_as == "json"
        # The sink encodes rows, and writes the bytes of quarantined records as they are.
        else [F.when(~is_quarantined, value).alias("value"), original_record.alias("valueBytes")]
    )
    return rows.select(
        topic.alias("topic"),
        F.col(KEY).alias("key"),
        *values,
        F.when(is_quarantined, headers(context, source_stage.name, RECORD, reason)).alias("headers"),
        # As a literal in the plan it would be new code for every batch, which the JVM compiles again.
        F.col(BATCH_TIME).alias("timestamp"),
    )


def check_reserved(schema: StructType, source_stage: SourceStage) -> None:
    """SettingsError where a source has columns with names that are reserved for the columns added here."""
    if taken := _RESERVED & set(schema.fieldNames()):
        raise SettingsError(
            f"source {source_stage.source_name} has columns named {sorted(taken)}",
            "Rename them: these names are reserved.",
        )


def check_columns(schema: StructType, source_stage: SourceStage) -> None:
    """Checks that need the columns."""
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
