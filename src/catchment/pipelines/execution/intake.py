"""An intake: events in, and each of them out to one of three topics: the boundary, the quarantine, or the late ones.

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
from catchment.pipelines.durations import interval
from catchment.pipelines.execution.boundaries import as_key, stream_options
from catchment.pipelines.execution.calendar_years import beyond_calendar
from catchment.pipelines.execution.decoding import decoding_options
from catchment.pipelines.execution.pipeline_session import read_stream
from catchment.pipelines.execution.row_values import row_values
from catchment.pipelines.execution.setting_aside import READING, as_it_came, headers, undecodable
from catchment.pipelines.execution.workplace import Workplace
from catchment.pipelines.graph import Intake
from catchment.pipelines.specification import Check

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


def intake_records(place: Workplace, intake: Intake) -> DataFrame:
    """The streaming rows that the sink is to write."""
    return cleaned_records(place, intake, _events(place, intake))


def cleaned_records(place: Workplace, intake: Intake, events: DataFrame) -> DataFrame:
    """The same from any stream of events that has the source's columns."""
    rows = _typed(events, intake)
    place.schemas[intake.name] = StructType(rows.schema.fields[len(_BESIDE) :])
    check_columns(place.schemas[intake.name], intake)
    judged = _relieved(_judged(rows, intake, place.schemas[intake.name]), place, intake)
    kept = _without_duplicates(_watermarked(judged, intake), intake)
    return _routed(kept, place, intake, place.schemas[intake.name])


def _events(place: Workplace, intake: Intake) -> DataFrame:
    """The records of the source's topic."""
    source = intake.source
    options = (
        stream_options(place, source.topic, intake.name)
        | decoding_options(source, place.folder)
        | {
            "startingOffsets": source.start,
            "admission": "timestamp",
            "watermarkFrom": place.checkpoint(intake.name),
        }
        | READING
    )
    return read_stream(place.spark, intake.source_name).format("catchment").options(**options).load()


def _typed(rows: DataFrame, intake: Intake) -> DataFrame:
    """The event's own columns, and beside them the record as it came."""
    value = ["value"] if intake.source.format == "text" else ["value.*"]
    return rows.select(
        as_it_came().alias(RECORD),
        F.coalesce(undecodable(), F.when(F.col("value").isNull(), F.lit("has no value"))).alias(DECODE_ERROR),
        F.col("watermark").alias(WATERMARK),
        F.col("batchTime").alias(BATCH_TIME),
        *value,
    )


def _judged(rows: DataFrame, intake: Intake, schema: StructType) -> DataFrame:
    """Each row with the reason why it is set aside, if there is one, and the time that Spark shall judge it by."""
    source = intake.source
    failing = [(one, ~F.coalesce(F.expr(one.expect), F.lit(False))) for one in intake.checks]
    reasons = [F.col(DECODE_ERROR), *beyond_calendar(schema, source.format)]
    if intake.dedupe:
        # Spark takes rows without a key for duplicates of one another.
        is_nameless = reduce(and_, (F.col(f"`{name}`").isNull() for name in intake.dedupe))
        reasons.append(F.when(is_nameless, F.lit(f"has no {' and no '.join(intake.dedupe)}")))
    if source.event_time is not None:
        time = F.col(source.event_time)
        most_ahead = F.expr(f"INTERVAL '{source.ahead / 1000}' SECOND")
        reasons.append(F.when(time.isNull(), F.lit(f"has no {source.event_time}")))
        too_far = F.concat(F.lit(f"{source.event_time} is far ahead of the record's own time: "), time.cast("string"))
        reasons.append(F.when(time > F.col(f"{RECORD}.timestamp") + most_ahead, too_far))
    reasons += [F.when(fails, _failed(one)) for one, fails in failing]
    rows = rows.withColumn(ERROR, F.coalesce(*reasons))
    if any(one.stop_above is not None for one in intake.checks):
        is_row = F.col(DECODE_ERROR).isNull()
        failed = [F.count_if(is_row & fails).alias(f"check{number}") for number, (_, fails) in enumerate(failing)]
        rows = rows.observe(CHECKS_METRIC, F.count_if(is_row).alias("rows"), *failed)
    rows = _dropped(rows, intake, failing)
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


def _dropped(rows: DataFrame, intake: Intake, failing: list[tuple[Check, Column]]) -> DataFrame:
    """Without what is to be dropped; with `fail`, a row that has an error fails the query."""
    for one, fails in failing:
        if one.otherwise == "drop":
            rows = rows.where(~fails | F.col(DECODE_ERROR).isNotNull())
    if intake.source.on_error == "drop":
        rows = rows.where(F.col(DECODE_ERROR).isNull())
    if intake.source.on_error == "fail":
        where = F.format_string("record %s-%d@%d ", f"{RECORD}.topic", f"{RECORD}.partition", f"{RECORD}.offset")
        failure = F.raise_error(F.concat(where, F.col(DECODE_ERROR)))
        rows = rows.withColumn(ERROR, F.when(F.col(DECODE_ERROR).isNotNull(), failure).otherwise(F.col(ERROR)))
    return rows


def _relieved(rows: DataFrame, place: Workplace, intake: Intake) -> DataFrame:
    """Without the record beside what is kept, but for the key where it is needed; what is set aside gets one of its own.

    The rest is the larger half of a row. It must go before the watermark, where Spark copies rows, and before its shuffle.
    """
    rows_as = place.written_rows(intake.name).format
    key = as_key(intake.boundary.key, rows_as) if intake.boundary.key else F.col(f"{RECORD}.key")
    is_aside = _is_aside()
    rows = rows.withColumn(KEY, F.when(is_aside, F.col(f"{RECORD}.key")).otherwise(key))
    if intake.dedupe:
        # No other row has it.
        position = F.struct(f"{RECORD}.topic", f"{RECORD}.partition", f"{RECORD}.offset")
        rows = rows.withColumn(ASIDE, F.when(is_aside, position))
    return rows.withColumn(RECORD, F.when(is_aside, F.col(RECORD)))


def _watermarked(rows: DataFrame, intake: Intake) -> DataFrame:
    source = intake.source
    if source.event_time is None or source.lateness is None:
        return rows
    return rows.withWatermark(TIME, interval(source.lateness))


def _is_aside() -> Column:
    return F.col(ERROR).isNotNull() | F.col(LATE)


def _without_duplicates(rows: DataFrame, intake: Intake) -> DataFrame:
    return rows.dropDuplicatesWithinWatermark([*intake.dedupe, ASIDE]) if intake.dedupe else rows


def _routed(rows: DataFrame, place: Workplace, intake: Intake, columns: StructType) -> DataFrame:
    """One record a row, for the topic where it belongs."""
    is_broken, is_late, is_aside = F.col(ERROR).isNotNull(), F.col(LATE), _is_aside()
    topic = F.when(is_broken, place.graph.quarantine).when(is_late, place.graph.late).otherwise(intake.boundary.topic)
    reason = F.coalesce(F.col(ERROR), F.concat(F.lit("late: watermark "), F.col(WATERMARK).cast("string")))
    rows_as = place.written_rows(intake.name).format
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
        F.when(is_aside, headers(place, intake.name, RECORD, reason)).alias("headers"),
        # As a value in the plan it would be a new program for every batch, which the JVM compiles from the start.
        F.col(BATCH_TIME).alias("timestamp"),
    )


def check_reserved(schema: StructType, intake: Intake) -> None:
    """SettingsError where a source has columns with the names of those that are put beside them here."""
    if taken := _RESERVED & set(schema.fieldNames()):
        raise SettingsError(
            f"source {intake.source_name} has columns named {sorted(taken)}", "Rename them: they are ours."
        )


def check_columns(schema: StructType, intake: Intake) -> None:
    """What can only be told when the columns are known."""
    names = schema.fieldNames()
    check_reserved(schema, intake)
    wanted = [*([intake.source.event_time] if intake.source.event_time else []), *intake.dedupe, *intake.boundary.key]
    for name in wanted:
        if name not in names:
            raise SettingsError(f"source {intake.source_name} has no column {name}", f"It has {', '.join(names)}.")
    if intake.source.event_time and not isinstance(schema[intake.source.event_time].dataType, TimestampType):
        kind = schema[intake.source.event_time].dataType.simpleString()
        raise SettingsError(
            f"the event time {intake.source.event_time} of source {intake.source_name} is a {kind}",
            "Declare it as timestamp: text as in ISO 8601 is read as one.",
        )
