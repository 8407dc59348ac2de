"""The sink in Spark: from a stage's rows to alerts in topics, batch after batch."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests.client.logs import CatchmentLogs
from tests.pipelines.alerts.alert_world import alert_id, connection, ids, new_rule

from catchment.client.errors import SettingsError
from catchment.pipelines.alerts.candidates import candidate_rows
from catchment.pipelines.alerts.decisions import Candidate, Decision
from catchment.pipelines.alerts.rule import AlertRule
from catchment.pipelines.alerts.writer import AlertWriter
from catchment.pipelines.execution.sinks import for_each_batch
from catchment.pipelines.realtime.query import alert_records

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def rows(spark: SparkSession, *values: str) -> DataFrame:
    return spark.sql(f"SELECT * FROM VALUES {', '.join(values)} AS t(district, at, count, load)")


def at(second: int) -> str:
    return f"timestamp'2026-03-01 12:00:{second:02d}.5Z'"


def test_an_alert_tells_what_happened_to_what_and_when(spark: SparkSession, catchment_logs: CatchmentLogs) -> None:
    rule = new_rule(catchment_logs, message="{district}: {count:,} reports, load {load:.1f}", version=3)
    with closing(AlertWriter(rule, connection(catchment_logs))) as sink:
        sink.handle(rows(spark, f"('Harbour', {at(1)}, 1234, 2.55D)", f"('Hill', {at(1)}, 40, 0D)"), 0)
    (message,) = catchment_logs.messages(rule.topics[0])
    assert message.key() == b"Harbour"
    key, time_us = '{"district":"Harbour"}', 1_772_366_401_500_000
    assert json.loads(message.value() or b"") == {
        "id": alert_id(rule.pipeline, "burst", key, time_us),
        "alert": "burst",
        "key": {"district": "Harbour"},
        "event_time": "2026-03-01T12:00:01.500000Z",
        "message": "Harbour: 1,234 reports, load 2.6",
        "row": {"district": "Harbour", "at": "2026-03-01T12:00:01.500000Z", "count": 1234, "load": 2.55},
        "pipeline": rule.pipeline,
        "version": 3,
    }
    (logged,) = catchment_logs.messages(rule.log_topic)
    assert (logged.key(), logged.value()) == (b"burst:Harbour", message.value())


def test_an_id_does_not_change_with_the_time_zone_of_the_session(
    spark: SparkSession, catchment_logs: CatchmentLogs
) -> None:
    rule = replace(new_rule(catchment_logs), key=("at",), when="true")
    batch = rows(spark, f"('Harbour', {at(1)}, 50, 0D)")
    zone = spark.conf.get("spark.sql.session.timeZone")
    found = []
    try:
        for name in ("UTC", "Asia/Kathmandu"):
            spark.conf.set("spark.sql.session.timeZone", name)
            found.append(candidate_rows(batch, rule).select("id", "key").collect())
    finally:
        spark.conf.set("spark.sql.session.timeZone", zone or "UTC")
    assert found[0] == found[1]


def test_batches_share_the_cooldown_and_repeated_ones_change_nothing(
    spark: SparkSession, catchment_logs: CatchmentLogs
) -> None:
    rule = new_rule(catchment_logs, cooldown_ms=10_000)
    batches = [
        rows(spark, f"('Harbour', {at(1)}, 50, 0D)", f"('Harbour', {at(5)}, 60, 0D)"),
        rows(spark, f"('Harbour', {at(9)}, 70, 0D)", f"('Hill', {at(9)}, 70, 0D)"),
        rows(spark, f"('Harbour', {at(11)}, 80, 0D)"),
    ]
    with closing(AlertWriter(rule, connection(catchment_logs))) as sink:
        for number, batch in enumerate(batches):
            sink.handle(batch, number)
        assert (sink.counts.fired, sink.counts.cooling) == (3, 2)
    with closing(AlertWriter(rule, connection(catchment_logs))) as sink:
        for number, batch in enumerate(batches):
            sink.handle(batch, number)
        assert (sink.counts.fired, sink.counts.repeated, sink.counts.cooling) == (0, 3, 2)
    found = [json.loads(value or b"") for value in catchment_logs.settled_values(rule.topics[0])]
    assert [(one["key"]["district"], one["row"]["count"]) for one in found] == [
        ("Harbour", 50),
        ("Hill", 70),
        ("Harbour", 80),
    ]


def burst(spark: SparkSession) -> DataFrame:
    """200 candidates of nine districts within 200 ms, in four partitions and in no order of time; two have no time."""
    return spark.range(0, 202, 1, 4).selectExpr(
        "string(id % 9) AS district", "IF(id < 200, timestamp_millis(id * 7919 % 200), NULL) AS at"
    )


def fired(logs: CatchmentLogs, rule: AlertRule) -> list[tuple[str, str]]:
    alerts = [json.loads(value or b"") for value in logs.settled_values(rule.topics[0])]
    return [(one["row"]["district"], one["event_time"]) for one in alerts]


def test_a_burst_is_decided_in_slices_and_fires_what_it_would_as_a_whole(
    spark: SparkSession, catchment_logs: CatchmentLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, sliced, broken = (
        new_rule(catchment_logs, when="true", cooldown_ms=30, candidates_at_once=limit) for limit in (1000, 16, 16)
    )
    with closing(AlertWriter(whole, connection(catchment_logs))) as sink:
        sink.handle(burst(spark), 0)
        expected = sink.counts
    assert expected.fired + expected.cooling == 200
    assert expected.without_time == 2

    sizes: list[int] = []
    fire = AlertWriter.fire

    def dying_fire(self: AlertWriter, candidates: list[Candidate]) -> Decision:
        sizes.append(len(candidates))
        if self._rule is broken and len(sizes) == 6:
            raise RuntimeError("killed")
        return fire(self, candidates)

    monkeypatch.setattr(AlertWriter, "fire", dying_fire)
    with closing(AlertWriter(sliced, connection(catchment_logs))) as sink:
        sink.handle(burst(spark), 0)
        assert sink.counts == expected
    assert (len(sizes), max(sizes)) == (13, 16)
    sizes.clear()
    with (
        closing(AlertWriter(broken, connection(catchment_logs))) as sink,
        pytest.raises(RuntimeError, match="killed"),
    ):
        sink.handle(burst(spark), 0)
    with closing(AlertWriter(broken, connection(catchment_logs))) as sink:
        sink.handle(burst(spark), 0)
        assert sink.counts.repeated > 0
    assert fired(catchment_logs, whole) == fired(catchment_logs, sliced) == fired(catchment_logs, broken)


def test_rows_without_a_time_or_with_a_key_that_is_null_or_no_utf_8_do_no_harm(
    spark: SparkSession, catchment_logs: CatchmentLogs
) -> None:
    rule = new_rule(catchment_logs, message="{district}: {count:d}")
    not_utf_8 = f"(CAST(X'FF' AS STRING), {at(2)}, 70, 0D)"
    batch = rows(
        spark, "('Harbour', NULL, 50, 0D)", f"(NULL, {at(1)}, 60, 0D)", f"('Hill', {at(1)}, NULL, 0D)", not_utf_8
    )
    with closing(AlertWriter(rule, connection(catchment_logs))) as sink:
        sink.handle(batch, 0)
        assert (sink.counts.fired, sink.counts.without_time) == (2, 1)
    found = sorted(catchment_logs.messages(rule.topics[0]), key=lambda one: one.key() or b"")
    assert [one.key() for one in found] == [None, "\N{REPLACEMENT CHARACTER}".encode()]
    assert json.loads(found[0].value() or b"")["message"] == "null: 60"


def test_several_columns_make_a_key_and_strange_names_are_columns_too(
    spark: SparkSession, catchment_logs: CatchmentLogs
) -> None:
    rule = replace(new_rule(catchment_logs), key=("a b", "c`d"), when="true", message="{{{a b}}} {c`d}")
    batch = spark.sql(f"SELECT 1 AS `a b`, 'x' AS `c``d`, {at(1)} AS at")
    with closing(AlertWriter(rule, connection(catchment_logs))) as sink:
        sink.handle(batch, 0)
    (message,) = catchment_logs.messages(rule.topics[0])
    assert message.key() == b'{"a b":1,"c`d":"x"}'
    assert json.loads(message.value() or b"")["message"] == "{1} x"


def test_a_topic_may_have_a_key_of_its_own_and_the_alert_stays_the_same(
    spark: SparkSession, catchment_logs: CatchmentLogs
) -> None:
    rule = new_rule(catchment_logs, topics=3, key=("district", "count"))
    first, second, third = rule.topics
    rule = replace(rule, topic_keys={second: ("district",), third: ("load", "district")})
    batch = rows(spark, f"('Harbour', {at(1)}, 50, 2.5D)", f"(NULL, {at(2)}, 60, 0D)")
    with closing(AlertWriter(rule, connection(catchment_logs))) as sink:
        sink.handle(batch, 0)
    keys = {topic: [one.key() for one in catchment_logs.messages(topic)] for topic in (*rule.topics, rule.log_topic)}
    harbour, nowhere = b'{"district":"Harbour","count":50}', b'{"district":null,"count":60}'
    assert keys == {
        first: [harbour, nowhere],
        second: [b"Harbour", None],
        third: [b'{"load":2.5,"district":"Harbour"}', b'{"load":0.0,"district":null}'],
        rule.log_topic: [b"burst:" + harbour, b"burst:" + nowhere],
    }
    assert len({tuple(ids(catchment_logs, topic)) for topic in keys}) == 1
    in_real_time = [(one["topic"], one["key"] and one["key"].encode()) for one in alert_records(batch, rule).collect()]
    assert Counter(in_real_time) == Counter((topic, key) for topic, found in keys.items() for key in found)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"key": ("town",)}, "has town as its key"),
        ({"topic_keys": {"dispatch": ("district", "town")}}, "has town as its key in topic dispatch"),
        ({"event_time": "when"}, "has when as its event time"),
        ({"message": "{town}"}, "{town} is no column"),
        ({"message": "{count:x}"}, "the layout of {count:x} is unknown"),
        ({"message": "{count"}, "cannot be formatted"),
        ({"message": "{count!r}"}, "cannot be formatted"),
    ],
)
def test_a_rule_that_does_not_fit_its_rows_is_refused_with_the_columns_there_are(
    spark: SparkSession, catchment_logs: CatchmentLogs, fields: dict[str, Any], reason: str
) -> None:
    rule = replace(new_rule(catchment_logs), **fields)
    with pytest.raises(SettingsError) as refused:
        candidate_rows(rows(spark, f"('Harbour', {at(1)}, 50, 0D)"), rule)
    assert reason in str(refused.value)


def test_a_stage_with_state_is_computed_once_and_whole(
    spark: SparkSession, catchment_logs: CatchmentLogs, tmp_path: Path
) -> None:
    rule = new_rule(catchment_logs, when="count >= 3", candidates_at_once=1)
    never = new_rule(catchment_logs, when="count >= 3 AND false")
    source = catchment_logs.topic(partitions=2)
    stream = (
        spark.readStream.format("catchment")
        .option("kafka.bootstrap.servers", catchment_logs.bootstrap_servers)
        .option("subscribe", source)
        .option("startingOffsets", "earliest")
        .load()
        .selectExpr("string(value) AS district", "timestamp'2026-03-01 12:00:00Z' AS at")
    )
    counts = stream.groupBy("district", "at").count()

    def run(sink: AlertWriter, checkpoint: str) -> None:
        writer = counts.writeStream.outputMode("update").option("checkpointLocation", str(tmp_path / checkpoint))
        query = writer.trigger(availableNow=True).foreachBatch(for_each_batch(sink.handle)).start()
        query.awaitTermination()
        assert query.exception() is None

    with closing(AlertWriter(rule, connection(catchment_logs))) as sink:
        for districts in ([b"Harbour", b"Hill"], [b"Harbour", b"Hill"], [b"Harbour", b"Hill", b"Harbour"]):
            catchment_logs.fill(source, districts)
            run(sink, "fires")
    with closing(AlertWriter(never, connection(catchment_logs))) as sink:
        run(sink, "never-fires")
    found = [json.loads(value or b"") for value in catchment_logs.settled_values(rule.topics[0])]
    assert sorted((one["key"]["district"], one["row"]["count"]) for one in found) == [("Harbour", 4), ("Hill", 3)]
