"""A real-time alert as one Spark query: the source's records decoded, filtered, and written as alerts within milliseconds.

Behaviour
    Delivery is at least once: after a restart, the events since the last checkpoint, at most one batch's length, are processed
    again. Each alert has the same id as in micro-batches, so receivers recognize repetitions. It is written to the same topics
    and to the alerts topic, from which webhooks and mail are served.
    A record gives no alert that Spark cannot decode, that has no event time, or one too far ahead of the record's own, which
    would move the watermark for good. The source stage quarantines such records, in micro-batches.
Gaps
    Only aggregations drop late records: other stages let them through. Spark accepts a number for a string or a timestamp where
    the source stage does not.
    Topics are not written in one transaction, and there is no cooldown: both need the state that micro-batches have.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StringType, StructField, StructType

from catchment.pipelines.alerts.candidates import candidate_rows
from catchment.pipelines.alerts.rule import AlertRule
from catchment.pipelines.declaration.addresses import LARGEST_RECORD_BYTES
from catchment.pipelines.declaration.durations import interval
from catchment.pipelines.declaration.specification import DEFAULT_AHEAD_MS, Stage
from catchment.pipelines.execution.session import read_stream
from catchment.pipelines.execution.source_stage import DECODE_ERROR
from catchment.pipelines.execution.stages import sql_rows
from catchment.pipelines.realtime.connector_settings import connector_options
from catchment.spark.formats.json import schema as json_schema

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

BATCH: Final = "5 minutes"
_ROW: Final = "row"
_KEEP_ERRORS: Final = {"columnNameOfCorruptRecord": DECODE_ERROR}
"""Otherwise Spark silently reads a field of a wrong type as null."""


@dataclass(frozen=True, slots=True)
class RealtimeSource:
    """A topic as Spark's own connector reads it."""

    name: str
    topic: str
    schema: DataType | str
    """The columns, as a type or in Spark's notation; of no use for text."""
    format: str = "json"
    start: str = "earliest"
    delimiter: str | None = None
    """CSV: what separates the columns."""
    event_time: str | None = None
    lateness_ms: int = 0
    ahead_ms: int = DEFAULT_AHEAD_MS


def start_alert(records: DataFrame, name: str, options: Mapping[str, str], checkpoint: str) -> StreamingQuery:
    """Start the query of an alert that `alert_records` has made; `options` begin with `kafka.`."""
    own = {"kafka.max.request.size": str(LARGEST_RECORD_BYTES)}
    writer = records.writeStream.format("kafka").options(**connector_options({**own, **options}))
    # PySpark's types do not know this trigger yet.
    trigger: dict[str, Any] = {"realTime": BATCH}
    return (
        writer.option("checkpointLocation", checkpoint).outputMode("update").queryName(name).trigger(**trigger).start()
    )


def source_rows(spark: SparkSession, source: RealtimeSource, options: Mapping[str, str]) -> DataFrame:
    """The topic's records, decoded, without those that a source stage would quarantine for their content."""
    reader = read_stream(spark, source.name).format("kafka").options(**connector_options(options))
    records = reader.option("subscribe", source.topic).option("startingOffsets", source.start).load()
    decoded = records.select("timestamp", _decoded(source).alias(_ROW)).where(_has_decoded(source))
    if source.event_time is None:
        return _columns(decoded)
    latest = F.col("timestamp") + F.expr(f"INTERVAL '{source.ahead_ms / 1000}' SECOND")
    in_time = decoded.where(F.col(f"{_ROW}.`{source.event_time}`") <= latest)
    return _columns(in_time).withWatermark(source.event_time, interval(source.lateness_ms))


def staged_rows(rows: DataFrame, source: RealtimeSource, stages: Sequence[tuple[str, Stage]]) -> DataFrame:
    """The rows after the checks and the code of each stage."""
    view = source.name
    for name, stage in stages:
        for check in stage.checks:
            rows = rows.where(F.coalesce(F.expr(check.expect), F.lit(False)))
        if stage.function is not None:
            rows = stage.function(rows)
        elif stage.sql is not None:
            rows = sql_rows(rows.sparkSession, stage.sql, {view: rows})
        view = name
    return rows


def alert_records(rows: DataFrame, rule: AlertRule) -> DataFrame:
    """A record for each alert and topic: those of the rule, and the log."""
    alerts = candidate_rows(rows, rule).where("id IS NOT NULL")
    log_key = F.concat(F.lit(f"{rule.name}:"), F.coalesce("record_key", F.lit("")))
    targets = [
        (rule.log_topic, log_key),
        *((topic, F.col("topic_keys")[position]) for position, topic in enumerate(rule.topics)),
    ]
    target = F.explode(F.array(*(F.struct(F.lit(topic).alias("topic"), key.alias("key")) for topic, key in targets)))
    headers = {"id": F.col("id"), "event_time_us": F.col("event_time_us").cast("string"), "key": F.col("key")}
    return alerts.select(
        target.alias("target"),
        "value",
        F.array(*(_header(name, text) for name, text in headers.items())).alias("headers"),
    ).select("target.topic", "target.key", "value", "headers")


def _decoded(source: RealtimeSource) -> Column:
    """The row as a struct, with a column of its own for text that Spark cannot decode."""
    text = F.col("value").cast("string")
    if source.format == "text":
        return F.struct(text.alias("value"))
    schema = json_schema.parse(source.schema, {}) if isinstance(source.schema, str) else source.schema
    assert isinstance(schema, StructType), "a record has columns"
    fields = [*schema.fields, StructField(DECODE_ERROR, StringType())]
    if source.format == "json":
        return F.from_json(text, StructType(fields), _KEEP_ERRORS)
    columns = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in fields)
    return F.from_csv(text, columns, {**_KEEP_ERRORS, **({"sep": source.delimiter} if source.delimiter else {})})


def _has_decoded(source: RealtimeSource) -> Column:
    if source.format == "text":
        return F.is_valid_utf8(F.col(f"{_ROW}.value"))
    return F.col(_ROW).isNotNull() & F.col(f"{_ROW}.{DECODE_ERROR}").isNull()


def _columns(decoded: DataFrame) -> DataFrame:
    return decoded.select(f"{_ROW}.*").drop(DECODE_ERROR)


def _header(name: str, text: Column) -> Column:
    return F.struct(F.lit(name).alias("key"), text.cast("binary").alias("value"))
