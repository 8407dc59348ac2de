"""The outcomes of alerts that another process decides, counted from their log."""

from __future__ import annotations

import itertools

import pytest
from tests.client.logs import CatchmentLogs, Logs
from tests.pipelines.alerts.alert_world import candidate, connection, eventually, new_rule

from catchment.client.cluster import Cluster
from catchment.pipelines.alerts.log import AlertLog
from catchment.pipelines.alerts.log_counts import LogCounts
from catchment.pipelines.alerts.rule import AlertRule
from catchment.ports.network import free_port
from catchment.spark.options.connection import Connection
from catchment.testing.embedded import Broker


def write(logs: Logs, rule: AlertRule, *times_us: int) -> None:
    log = AlertLog(connection(logs), rule)
    try:
        log.append([candidate(rule, "harbour", one) for one in times_us])
    finally:
        log.close()


def test_a_new_id_has_fired_and_one_that_was_there_before_is_repeated(catchment_logs: Logs) -> None:
    rule = new_rule(catchment_logs)
    other = new_rule_of(rule, "bursts")
    write(catchment_logs, rule, 1, 2)
    with LogCounts(connection(catchment_logs), rule.pipeline, ["burst"]) as counts:
        write(catchment_logs, rule, 2, 3)
        write(catchment_logs, other, 4, 5)
        write(catchment_logs, rule, 3, 3, 6)
        eventually(lambda: counts.outcomes == {"burst": {"fired": 2, "repeated": 3}}, lambda: counts.outcomes)


def test_what_fired_before_the_driver_started_is_not_counted(catchment_logs: Logs) -> None:
    rule = new_rule(catchment_logs)
    write(catchment_logs, rule, *range(50))
    with LogCounts(connection(catchment_logs), rule.pipeline, ["burst"]) as counts:
        assert counts.outcomes == {"burst": {"fired": 0, "repeated": 0}}
        write(catchment_logs, rule, 50)
        eventually(lambda: counts.outcomes == {"burst": {"fired": 1, "repeated": 0}}, lambda: counts.outcomes)


def test_records_that_are_gone_are_passed_by_and_later_ones_counted(
    catchment_logs: Logs, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    rule = new_rule(catchment_logs)
    write(catchment_logs, rule, 1)
    begin = LogCounts._begin

    def too_early(self: LogCounts, cluster: Cluster) -> None:
        begin(self, cluster)
        # As if retention had removed them since.
        self._positions = {place: offset - 5 for place, offset in self._positions.items()}

    monkeypatch.setattr(LogCounts, "_begin", too_early)
    with LogCounts(connection(catchment_logs), rule.pipeline, ["burst"]) as counts:
        write(catchment_logs, rule, 1, 2)
        eventually(lambda: counts.outcomes == {"burst": {"fired": 1, "repeated": 1}}, lambda: counts.outcomes)
    assert "are not counted" in caplog.text


def test_brokers_that_are_away_at_first_end_nothing_and_are_counted_at_when_they_are_back() -> None:
    port = free_port()
    away = Connection(f"127.0.0.1:{port}", timeout_s=0.5)
    numbers = itertools.count()
    with LogCounts(away, "later", ["burst"]) as counts:
        assert counts.outcomes == {"burst": {"fired": 0, "repeated": 0}}
        with Broker(settings={"listeners": f"PLAINTEXT://127.0.0.1:{port}"}) as broker:
            logs = CatchmentLogs(broker)
            rule = new_rule(logs, pipeline="later")

            def has_fired() -> bool:
                write(logs, rule, next(numbers))
                return counts.outcomes["burst"]["fired"] > 0

            eventually(has_fired, lambda: counts.outcomes)


def test_without_such_alerts_nothing_is_read(catchment_logs: Logs) -> None:
    with LogCounts(connection(catchment_logs), "unknown", []) as counts:
        assert counts.outcomes == {}
        assert not counts._thread.is_alive()


def new_rule_of(rule: AlertRule, name: str) -> AlertRule:
    """Another alert of the same pipeline, whose name begins alike."""
    return AlertRule(rule.pipeline, name, rule.when, rule.key, rule.event_time, topics=rule.topics)
