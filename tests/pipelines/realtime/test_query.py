"""Real-time alerts in Spark: the same alerts as in micro-batches, and a refusal in words for what the mode has not."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.client.logs import CatchmentLogs
from tests.pipelines.alerts.alert_world import alert_id, eventually

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from pyspark.sql import functions as F

from catchment.bench.pipelines.realtime_alerts import latencies_ms
from catchment.pipelines.alerts.log import fired_before
from catchment.pipelines.alerts.rule import AlertRule
from catchment.pipelines.declaration.addresses import LARGEST_RECORD_BYTES
from catchment.pipelines.declaration.specification import Stage
from catchment.pipelines.realtime.plan_check import NotInRealTime, require_allowed
from catchment.pipelines.realtime.query import (
    RealtimeSource,
    alert_records,
    source_rows,
    staged_rows,
    start_alert,
)
from catchment.spark.options.connection import Connection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = "host string, at timestamp, load double, rack int"
LARGE = str(LARGEST_RECORD_BYTES)
_numbers = itertools.count(1)


def options(logs: CatchmentLogs) -> dict[str, str]:
    return {"kafka.bootstrap.servers": logs.bootstrap_servers}


def new_source(logs: CatchmentLogs, partitions: int = 1, **fields: Any) -> RealtimeSource:
    return RealtimeSource("readings", logs.topic(partitions=partitions, max_message_bytes=LARGE), SCHEMA, **fields)


def new_rule(logs: CatchmentLogs, **fields: Any) -> AlertRule:
    rule = AlertRule(
        **{
            "pipeline": f"hosts{next(_numbers)}",
            "name": "hot",
            "when": "load > 0.9",
            "key": ("host",),
            "event_time": "at",
            "topics": (logs.topic(max_message_bytes=LARGE),),
            "message": "{host} is at {load:.1f}",
            **fields,
        }
    )
    logs.create(rule.log_topic, 1, {"max.message.bytes": LARGE})
    return rule


def reading(host: str, load: float, at: str = "2020-03-01T12:00:00Z") -> bytes:
    return json.dumps({"host": host, "at": at, "load": load}).encode()


@contextmanager
def running(
    spark: SparkSession,
    logs: CatchmentLogs,
    rule: AlertRule,
    source: RealtimeSource,
    stages: list[tuple[str, Stage]],
    checkpoint: Path,
) -> Iterator[None]:
    rows = staged_rows(source_rows(spark, source, options(logs)), source, stages)
    query = start_alert(alert_records(rows, rule), rule.pipeline, options(logs), str(checkpoint))
    try:
        yield
        assert query.exception() is None
    finally:
        query.stop()


def alerts(logs: CatchmentLogs, topic: str) -> list[dict[str, Any]]:
    return [json.loads(value or b"") for value in logs.values(topic)]


def test_an_alert_arrives_in_all_topics_with_the_id_it_has_in_micro_batches(
    spark_with_peer: SparkSession, catchment_logs: CatchmentLogs, tmp_path: Path
) -> None:
    source, rule = new_source(catchment_logs, event_time="at", lateness_ms=10_000), new_rule(catchment_logs)
    stages = [("checked", Stage.model_validate({"from": "readings", "checks": {"expect": "load < 100"}}))]
    sent = [
        b"no JSON",
        reading("a", 0.95),
        reading("b", 0.5),
        b'{"host": "c", "load": 1.0}',
        reading("d", 500.0),
        # The source stage would set both aside: a clock that is wrong, and a field that is no number.
        reading("future", 2.0, at="2099-01-01T00:00:00Z"),
        reading("broken", 2.0).replace(b"}", b', "rack": "third"}'),
        reading("e", 2.0),
        reading("large" * 300_000, 3.0),
    ]
    catchment_logs.fill(source.topic, sent, settings={"message.max.bytes": LARGEST_RECORD_BYTES})
    with running(spark_with_peer, catchment_logs, rule, source, stages, tmp_path):
        eventually(lambda: len(alerts(catchment_logs, rule.topics[0])) == 3)
        found = alerts(catchment_logs, rule.topics[0])
        eventually(lambda: alerts(catchment_logs, rule.log_topic) == found)
    assert [(one["key"]["host"][:10], one["message"][-6:]) for one in found] == [
        ("a", "at 1.0"),
        ("e", "at 2.0"),
        ("largelarge", "at 3.0"),
    ]
    time_us = 1_583_064_000_000_000
    assert found[0]["id"] == alert_id(rule.pipeline, "hot", '{"host":"a"}', time_us)
    # A sink in micro-batches would know them as fired.
    with Connection.read(options(catchment_logs)).new_cluster() as cluster:
        assert fired_before(cluster, rule)[:2] == [('{"host":"a"}', time_us), ('{"host":"e"}', time_us)]


def test_counts_alert_at_the_event_that_reaches_them(
    spark_with_peer: SparkSession, catchment_logs: CatchmentLogs, tmp_path: Path
) -> None:
    source = new_source(catchment_logs, event_time="at", lateness_ms=10_000)
    rule = new_rule(catchment_logs, when="n = 3", message="{host}")
    sql = "SELECT host, window(at, '10 seconds').start AS at, count(*) AS n FROM readings GROUP BY host, window(at, '10 seconds')"
    stages = [
        ("counted", Stage.model_validate({"from": "readings", "sql": sql, "mode": "update", "key": ["host", "at"]}))
    ]
    before = spark_with_peer.conf.get("spark.sql.shuffle.partitions")
    spark_with_peer.conf.set("spark.sql.shuffle.partitions", "1")
    try:
        with running(spark_with_peer, catchment_logs, rule, source, stages, tmp_path):
            catchment_logs.fill(source.topic, [reading(host, 1.0) for host in "ababa"])
            eventually(lambda: [one["message"] for one in alerts(catchment_logs, rule.topics[0])] == ["a"])
            catchment_logs.fill(source.topic, [reading("b", 1.0)])
            eventually(lambda: [one["message"] for one in alerts(catchment_logs, rule.topics[0])] == ["a", "b"])
    finally:
        spark_with_peer.conf.set("spark.sql.shuffle.partitions", before or "2")


def python_code(rows: DataFrame) -> DataFrame:
    return rows.withColumn("load", F.udf(lambda load: load * 2, "double")("load"))


def session_windows(rows: DataFrame) -> DataFrame:
    return rows.groupBy("host", F.session_window("at", "1 minute")).agg(
        F.max("at").alias("at"), F.max("load").alias("load")
    )


def windows(rows: DataFrame) -> DataFrame:
    return rows.groupBy("host", F.window("at", "1 minute")).agg(F.max("at").alias("at"), F.max("load").alias("load"))


def stream_join(rows: DataFrame) -> DataFrame:
    return rows.join(rows.select("host").where("load > 1"), "host")


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (python_code, "it runs Python for its rows"),
        (session_windows, "it has session windows"),
        (windows, "it aggregates in mode append"),
        (stream_join, "it joins two streams"),
    ],
)
def test_code_that_the_mode_has_not_is_refused_in_words(
    spark_with_peer: SparkSession, catchment_logs: CatchmentLogs, function: Any, reason: str
) -> None:
    source = RealtimeSource("readings", "no-such-topic", SCHEMA, event_time="at")
    stages = [("staged", Stage.model_validate({"from": "readings", "function": function}))]
    rows = staged_rows(source_rows(spark_with_peer, source, options(catchment_logs)), source, stages)
    rule = AlertRule("hosts", "hot", "load > 0.9", ("host",), "at")
    with pytest.raises(NotInRealTime, match=f"alert hot cannot run in real-time mode: {reason}"):
        require_allowed(alert_records(rows, rule), "hot", is_append=True)


def test_the_measurement_times_the_alert_of_every_event(
    spark_with_peer: SparkSession, catchment_logs: CatchmentLogs, tmp_path: Path
) -> None:
    events, found = catchment_logs.topic(), catchment_logs.topic()
    times_ms = latencies_ms(
        spark_with_peer,
        catchment_logs.bootstrap_servers,
        events,
        found,
        tmp_path,
        seconds=1.0,
        warming_s=0.5,
        per_second=50,
    )
    assert len(times_ms) == 50
    assert 0 < times_ms[0] <= times_ms[-1]
