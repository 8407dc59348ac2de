"""Alerts as sinks: the candidates among the rows of a stage, and the channels of those that fire."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from catchment.client.errors import SettingsError
from catchment.pipelines.alerts.absence import LAST_SEEN, absent_rows
from catchment.pipelines.alerts.notifier import Notifier
from catchment.pipelines.alerts.rule import AlertRule
from catchment.pipelines.alerts.writer import AlertWriter
from catchment.pipelines.declaration.addresses import with_variables
from catchment.pipelines.declaration.specification import Alert, Mail, TopicOut, Webhook
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.graph import Graph, Sink
from catchment.pipelines.naming import alert_name
from catchment.spark.options.connection import Connection

_TIMES: Final = ("end", "start")
"""Columns of windows, for a stage that names no event time."""
_ALWAYS: Final = "true"


def alert_rule(context: RunContext, sink: Sink, event_time: str) -> AlertRule:
    """The rule of an alert."""
    alert = sink.target
    assert isinstance(alert, Alert), "only alerts have a rule"
    topics = [one for one in alert.to if isinstance(one, TopicOut)]
    return AlertRule(
        pipeline=context.pipeline,
        name=alert_name(sink.name),
        when=alert.when or _ALWAYS,
        key=alert.key,
        event_time=event_time,
        cooldown_ms=alert.cooldown,
        topics=tuple(one.topic for one in topics),
        topic_keys={one.topic: one.key for one in topics if one.key},
        webhooks=tuple(with_variables(one.webhook) for one in alert.to if isinstance(one, Webhook)),
        mails=tuple(with_variables(one.mail) for one in alert.to if isinstance(one, Mail)),
        message=alert.message,
        version=context.graph.specification.version,
    )


def alert_candidates(context: RunContext, sink: Sink, rows: DataFrame) -> tuple[DataFrame, AlertWriter]:
    """The rows that an alert reads, and the writer that handles their batches."""
    alert = sink.target
    assert isinstance(alert, Alert), "only alerts have a rule"
    event_time = event_time_of(context.graph, sink.reads, rows.columns)
    if alert.absent_for is not None:
        rows = absent_rows(rows, alert.key, event_time, alert.absent_for)
        event_time = LAST_SEEN
    alerts = AlertWriter(alert_rule(context, sink, event_time), Connection.read(context.connection))
    context.alert_counts[alert_name(sink.name)] = alerts.counts
    context.at_end.callback(alerts.close)
    return rows, alerts


def event_time_of(graph: Graph, name: str, columns: list[str]) -> str:
    """The column with the event time of a row."""
    stage, source_stage, source = (
        graph.processing_stages.get(name),
        graph.source_stages.get(name),
        graph.sources.get(name),
    )
    declared = [
        stage.declaration.event_time if stage else None,
        source_stage.source.event_time if source_stage else None,
        source.event_time if source else None,
        *_TIMES,
    ]
    found = [one for one in declared if one is not None and one in columns]
    if not found:
        raise SettingsError(
            f"an alert on {name} has no event time",
            f"Name the column with event_time of {name}; it has {', '.join(columns)}.",
        )
    return found[0]


def notifier(context: RunContext) -> Notifier:
    """The notifier of a pipeline, to be opened before the queries are started."""
    sinks = [one for one in context.graph.sinks.values() if isinstance(one.target, Alert)]
    rules = [alert_rule(context, one, event_time=LAST_SEEN) for one in sinks]
    smtp = context.graph.specification.smtp
    return Notifier(rules, Connection.read(context.connection), smtp=with_variables(smtp) if smtp else None)
