"""The source inside Spark: what only a running session can show."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, DataFrameReader, SparkSession
from pyspark.sql.functions import col, window
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamReader
from tests.client.logs import CatchmentLogs
from tests.spark.driven_source import TIMEOUT_S, delete_records
from typer.testing import CliRunner

from catchment.cli.app import app

TEN = [b"%d" % number for number in range(10)]
_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
_QUERY_S = 4 * TIMEOUT_S


@pytest.fixture
def topic(catchment_logs: CatchmentLogs) -> str:
    name = catchment_logs.topic(partitions=2)
    catchment_logs.fill(name, TEN)
    catchment_logs.fill(name, [b"x", b"y"], partition=1)
    return name


def batch(spark: SparkSession, logs: CatchmentLogs, topic: str) -> DataFrameReader:
    return spark.read.format("catchment").options(
        **{"kafka.bootstrap.servers": logs.bootstrap_servers, "subscribe": topic}
    )


def stream(spark: SparkSession, logs: CatchmentLogs, topic: str) -> DataStreamReader:
    return (
        spark.readStream.format("catchment")
        .option("kafka.bootstrap.servers", logs.bootstrap_servers)
        .option("kafka.metadata.max.age.ms", "100")
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
    )


def values(frame: DataFrame) -> list[bytes]:
    return sorted(bytes(row.value) for row in frame.select("value").collect())


@pytest.fixture
def queries(spark: SparkSession) -> Iterator[list[StreamingQuery]]:
    started: list[StreamingQuery] = []
    yield started
    for query in started:
        query.stop()


def test_a_batch_query_filters_alike_with_and_without_pushdown(
    spark: SparkSession, catchment_logs: CatchmentLogs, topic: str
) -> None:
    frame = batch(spark, catchment_logs, topic).load()
    assert values(frame) == sorted([*TEN, b"x", b"y"])
    filtered = frame.where("partition = 0 and offset > 2 and offset <= 5 and timestamp > '2020-01-01' and value != '4'")
    found = []
    for is_on in ("true", "false"):
        before = spark.conf.get(_PUSHDOWN)
        spark.conf.set(_PUSHDOWN, is_on)
        try:
            found.append(values(filtered.select("*")))
        finally:
            spark.conf.set(_PUSHDOWN, str(before))
    assert found == [[b"3", b"5"], [b"3", b"5"]]


def test_sql_reads_a_topic_as_a_table_and_a_schema_narrows_it(
    spark: SparkSession, catchment_logs: CatchmentLogs, topic: str
) -> None:
    servers = catchment_logs.bootstrap_servers
    spark.sql(
        f"CREATE TEMPORARY VIEW `{topic}` USING catchment OPTIONS (`kafka.bootstrap.servers` '{servers}', subscribe '{topic}')"
    )
    (row,) = spark.sql(f"SELECT count(*) AS rows, max(offset) AS last FROM `{topic}`").collect()
    assert (row["rows"], row["last"]) == (12, 9)
    narrow = batch(spark, catchment_logs, topic).schema("offset bigint, value binary").load()
    assert narrow.columns == ["offset", "value"]
    assert narrow.where("offset = 1 and value = 'y'").count() == 1


def test_mistakes_in_options_are_reported_in_one_message(
    spark: SparkSession, catchment_logs: CatchmentLogs, topic: str
) -> None:
    with pytest.raises(PySparkException) as raised:
        batch(spark, catchment_logs, topic).option("minPartitions", "x").option("failOnDataLoss", "y").load()
    message = str(raised.value)
    assert "2 options are wrong" in message
    assert "the option minPartitions cannot be 'x'. Give a whole number above 0." in message


def test_lost_data_fails_a_task_with_a_message_that_names_it(
    spark: SparkSession, catchment_logs: CatchmentLogs, topic: str
) -> None:
    delete_records(catchment_logs, topic, 5)
    start = json.dumps({topic: {"0": 2, "1": 0}})
    reader = batch(spark, catchment_logs, topic).option("startingOffsets", start)
    with pytest.raises(PySparkException) as raised:
        reader.load().collect()
    assert f"DataLost: offsets 2 to 5 of topic {topic}, partition 0, cannot be read" in str(raised.value)
    assert values(reader.option("failOnDataLoss", "false").load()) == sorted([*TEN[5:], b"x", b"y"])


def test_lag_is_seen_while_the_query_waits_for_more(
    spark: SparkSession, catchment_logs: CatchmentLogs, topic: str, queries: list[StreamingQuery]
) -> None:
    name = f"lag_{topic.replace('-', '_')}"
    frame = stream(spark, catchment_logs, topic).load()
    query = frame.writeStream.format("noop").queryName(name).start()
    queries.append(query)
    command = [
        "group",
        "lag",
        f"catchment-spark-{name}",
        "--json",
        "--bootstrap-server",
        catchment_logs.bootstrap_servers,
    ]
    deadline_s = time.monotonic() + _QUERY_S
    while True:
        result = CliRunner().invoke(app, command)
        if result.exit_code == 0 and len(rows := json.loads(result.stdout)) == 2:
            break
        assert time.monotonic() < deadline_s, result.output
        assert query.exception() is None
    assert [(row["partition"], row["position"], row["lag"]) for row in rows] == [(0, 10, 0), (1, 2, 0)]


def test_available_now_reads_what_is_there_in_limited_batches_and_goes_on_from_its_checkpoint(
    spark: SparkSession, catchment_logs: CatchmentLogs, topic: str, tmp_path: Path
) -> None:
    seen: list[list[bytes]] = []

    def run() -> None:
        frame = stream(spark, catchment_logs, topic).option("maxOffsetsPerTrigger", "6").load()
        query = (
            frame.writeStream.foreachBatch(lambda rows, _: seen.append(values(rows)))
            .option("checkpointLocation", str(tmp_path))
            .trigger(availableNow=True)
            .start()
        )
        assert query.awaitTermination(int(_QUERY_S))

    run()
    assert [len(found) for found in seen] == [6, 6]
    assert sorted(value for found in seen for value in found) == sorted([*TEN, b"x", b"y"])
    catchment_logs.fill(topic, [b"later"])
    run()
    assert seen[2:] == [[b"later"]]


def test_new_partitions_two_sources_and_batches_without_data_work_in_one_query(
    spark: SparkSession, catchment_logs: CatchmentLogs, topic: str, queries: list[StreamingQuery]
) -> None:
    other = catchment_logs.topic()
    frame = stream(spark, catchment_logs, topic).load().union(stream(spark, catchment_logs, other).load())
    name = f"counts_{topic.replace('-', '_')}"
    counts = frame.withWatermark("timestamp", "0 seconds").groupBy(window(col("timestamp"), "1 hour"), "topic").count()
    query = counts.writeStream.format("memory").outputMode("update").queryName(name).start()
    queries.append(query)
    query.processAllAvailable()
    catchment_logs.grow(topic, 3)
    catchment_logs.fill(topic, [b"new"], partition=2)
    catchment_logs.fill(other, [b"new"])

    def latest() -> dict[str, int]:
        rows = spark.sql(f"SELECT topic, max(count) AS count FROM {name} GROUP BY topic").collect()
        return {row["topic"]: row["count"] for row in rows}

    deadline_s = time.monotonic() + _QUERY_S
    while latest() != {topic: 13, other: 1}:
        assert time.monotonic() < deadline_s, latest()
        query.processAllAvailable()
