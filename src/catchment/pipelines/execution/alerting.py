"""Alerts as outlets: which rows of a stage are candidates, and who hears of those that fire."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from catchment.client.errors import SettingsError
from catchment.pipelines.alerts.absence import LAST_SEEN, absent_rows
from catchment.pipelines.alerts.notifier import Notifier
from catchment.pipelines.alerts.outlet import AlertOutlet
from catchment.pipelines.alerts.rule import AlertRule
from catchment.pipelines.execution.workplace import Workplace
from catchment.pipelines.graph import Graph, Outlet
from catchment.pipelines.naming import alert_name
from catchment.pipelines.secrets import with_variables
from catchment.pipelines.specification import Alert, Mail, TopicOut, Webhook
from catchment.spark.connection import Connection

_TIMES: Final = ("end", "start")
"""Columns that windows have, where a stage does not say which one is its time."""
_ALWAYS: Final = "true"


def alert_rule(place: Workplace, outlet: Outlet, event_time: str) -> AlertRule:
    """An alert as it is decided and told."""
    alert = outlet.target
    assert isinstance(alert, Alert), "only alerts are asked about"
    topics = [one for one in alert.to if isinstance(one, TopicOut)]
    return AlertRule(
        pipeline=place.pipeline,
        name=alert_name(outlet.name),
        when=alert.when or _ALWAYS,
        key=alert.key,
        event_time=event_time,
        cooldown_ms=alert.cooldown,
        topics=tuple(one.topic for one in topics),
        topic_keys={one.topic: one.key for one in topics if one.key},
        webhooks=tuple(with_variables(one.webhook) for one in alert.to if isinstance(one, Webhook)),
        mails=tuple(with_variables(one.mail) for one in alert.to if isinstance(one, Mail)),
        message=alert.message,
        version=place.graph.specification.version,
    )


def alert_candidates(place: Workplace, outlet: Outlet, rows: DataFrame) -> tuple[DataFrame, AlertOutlet]:
    """The rows that an alert looks at, and what looks at them batch by batch."""
    alert = outlet.target
    assert isinstance(alert, Alert), "only alerts are asked about"
    event_time = event_time_of(place.graph, outlet.reads, rows.columns)
    if alert.absent_for is not None:
        rows = absent_rows(rows, alert.key, event_time, alert.absent_for)
        event_time = LAST_SEEN
    alerts = AlertOutlet(alert_rule(place, outlet, event_time), Connection.read(place.connection))
    place.alert_counts[alert_name(outlet.name)] = alerts.counts
    place.at_end.callback(alerts.close)
    return rows, alerts


def event_time_of(graph: Graph, name: str, columns: list[str]) -> str:
    """The column that says when a row happened."""
    step, intake, source = graph.steps.get(name), graph.intakes.get(name), graph.sources.get(name)
    declared = [
        step.stage.event_time if step else None,
        intake.source.event_time if intake else None,
        source.event_time if source else None,
        *_TIMES,
    ]
    found = [one for one in declared if one is not None and one in columns]
    if not found:
        raise SettingsError(
            f"an alert on {name} cannot tell when a row happened",
            f"Name the column with event_time of {name}; it has {', '.join(columns)}.",
        )
    return found[0]


def notifier(place: Workplace) -> Notifier:
    """What tells people of alerts; to be opened before the queries are started."""
    outlets = [one for one in place.graph.outlets.values() if isinstance(one.target, Alert)]
    rules = [alert_rule(place, one, event_time=LAST_SEEN) for one in outlets]
    smtp = place.graph.specification.smtp
    return Notifier(rules, Connection.read(place.connection), smtp=with_variables(smtp) if smtp else None)
