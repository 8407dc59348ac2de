"""From a stage's rows to candidates for an alert, in Spark's own expressions, which micro-batches and real-time mode share."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F

from catchment.client.errors import SettingsError
from catchment.pipelines.alerts.rule import NUMBER, AlertRule, mistakes_in, pieces

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

_JSON: Final = {
    # Ids are made of this: they must change neither with the topics between stages nor with the time zone of a session.
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timeZone": "UTC",
    "ignoreNullFields": "false",
}
_ID_LENGTH: Final = 32


def candidate_rows(rows: DataFrame, rule: AlertRule) -> DataFrame:
    """The rows that satisfy the condition, as columns key, event_time_us, id, record_key, value and topic_keys, those of `Candidate`.

    A row without an event time has null for `event_time_us` and `id`.
    """
    require_columns(rows, rule)
    key = _as_json(rule.key)
    time_us = F.unix_micros(_column(rule.event_time).cast("timestamp"))
    chosen = rows.where(F.expr(rule.when)).select(
        key.alias("key"),
        time_us.alias("event_time_us"),
        _id(rule, key, time_us).alias("id"),
        _record_key(rule.key).alias("record_key"),
        _topic_keys(rule).alias("topic_keys"),
        F.struct(*map(_column, rule.key)).alias("key_fields"),
        _column(rule.event_time).cast("timestamp").alias("event_time"),
        _message(rows, rule).alias("message"),
        F.struct(*map(_column, rows.columns)).alias("row"),
    )
    alert = F.struct(
        "id",
        F.lit(rule.name).alias("alert"),
        F.col("key_fields").alias("key"),
        "event_time",
        "message",
        "row",
        F.lit(rule.pipeline).alias("pipeline"),
        F.lit(rule.version).alias("version"),
    )
    value = F.to_json(alert, _JSON).alias("value")
    return chosen.select("key", "event_time_us", "id", "record_key", value, "topic_keys")


def require_columns(rows: DataFrame, rule: AlertRule) -> None:
    """SettingsError where the rule names a column that the rows do not have."""
    keys = [(one, "key") for one in rule.key]
    keys += [(one, f"key in topic {topic}") for topic, names in rule.topic_keys.items() for one in names]
    for name, what in [*keys, (rule.event_time, "event time")]:
        if name not in rows.columns:
            raise SettingsError(
                f"alert {rule.name} of pipeline {rule.pipeline} has {name} as its {what}, which its stage does not give",
                f"Name one of {', '.join(rows.columns)}.",
            )


def _id(rule: AlertRule, key: Column, time_us: Column) -> Column:
    """A digest of what identifies an alert, the same in every version and mode; null without an event time."""
    text = F.concat(F.lit(f"{rule.pipeline}\n{rule.name}\n"), key, F.lit("\n"), time_us.cast("string"))
    return F.substring(F.sha2(text.cast("binary"), 256), 1, _ID_LENGTH)


def _record_key(names: tuple[str, ...]) -> Column:
    """A single column as text, as the topics between stages have it; several as a JSON object, which replaces what is no UTF-8 too."""
    return F.make_valid_utf8(_column(names[0]).cast("string")) if len(names) == 1 else _as_json(names)


def _topic_keys(rule: AlertRule) -> Column:
    keys = [_record_key(rule.topic_keys.get(topic, rule.key)) for topic in rule.topics]
    return F.array(*keys).cast("array<string>")


def _as_json(names: tuple[str, ...]) -> Column:
    return F.to_json(F.struct(*map(_column, names)), _JSON)


def _message(rows: DataFrame, rule: AlertRule) -> Column:
    """The template with the row's values in place of the names in braces; `{price:.2f}` and `{count:,}` are supported."""
    if rule.message is None:
        parts = [F.lit(f"{rule.name}: "), *_joined(rule.key)]
    else:
        for _, why in mistakes_in(rule.message, rows.columns):
            raise _bad_message(rule, why)
        parts = []
        for piece in pieces(rule.message):
            parts.append(F.lit(piece.text))
            if piece.column is not None:
                parts.append(_shown(piece.column, piece.layout))
    return F.concat(F.lit(""), *parts)


def _joined(names: tuple[str, ...]) -> list[Column]:
    shown: list[Column] = []
    for name in names:
        shown += [F.lit(", "), F.coalesce(_column(name).cast("string"), F.lit("null"))]
    return shown[1:]


def _shown(name: str, layout: str) -> Column:
    match = NUMBER.fullmatch(layout)
    assert match is not None, "the message was checked"
    if not layout:
        text = _column(name).cast("string")
    elif match[3]:
        text = F.format_string(f"%{match[1]}.{match[3]}f", _column(name).cast("double"))
    else:
        text = F.format_string(f"%{match[1]}d", _column(name).cast("bigint"))
    return F.when(_column(name).isNull(), F.lit("null")).otherwise(text)


def _bad_message(rule: AlertRule, why: str) -> SettingsError:
    return SettingsError(
        f"the message of alert {rule.name} of pipeline {rule.pipeline} cannot be formatted: {why}",
        "Write columns in braces, such as {district}: {count} reports.",
    )


def _column(name: str) -> Column:
    return F.col("`" + name.replace("`", "``") + "`")
