"""The source and the sink where people meet them: in SQL, in `foreachBatch`, and in a run over what is there now."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")

from pyspark.sql import DataFrame, SparkSession
from tests.client.logs import CatchmentLogs

from catchment.spark import register

TIMEOUT_S = 600
SENT = [b"%d" % number for number in range(50)]


@pytest.fixture
def source(catchment_logs: CatchmentLogs) -> str:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, SENT)
    return topic


def test_sql_reads_a_topic_as_a_view(spark: SparkSession, catchment_logs: CatchmentLogs, source: str) -> None:
    options = f"`kafka.bootstrap.servers` '{catchment_logs.bootstrap_servers}', subscribe '{source}'"
    spark.sql(f"CREATE TEMPORARY VIEW flows USING catchment OPTIONS ({options})")
    try:
        found = spark.sql(
            "SELECT CAST(value AS STRING) AS text FROM flows WHERE offset >= 45 ORDER BY offset"
        ).collect()
        assert [row.text for row in found] == ["45", "46", "47", "48", "49"]
    finally:
        spark.catalog.dropTempView("flows")


def test_a_second_session_beside_the_first_is_given_the_formats(
    spark: SparkSession, catchment_logs: CatchmentLogs, source: str
) -> None:
    active = SparkSession.active()
    second = spark.newSession()
    register(second)
    assert SparkSession.active() is active, "the first one stays the active one"
    for one in (second, spark):
        reader = one.read.format("catchment").option("kafka.bootstrap.servers", catchment_logs.bootstrap_servers)
        assert reader.option("subscribe", source).load().count() == len(SENT)


def test_sql_reads_and_writes_a_table_that_is_given_its_options(
    spark: SparkSession, catchment_logs: CatchmentLogs, source: str, tmp_path: Path
) -> None:
    sink = catchment_logs.topic()
    servers = f"`kafka.bootstrap.servers` = '{catchment_logs.bootstrap_servers}'"
    spark.sql(f"CREATE TABLE records (value BINARY) USING catchment LOCATION '{tmp_path.as_uri()}'")
    try:
        wanted = f"SELECT value FROM records WITH ({servers}, subscribe = '{source}')"
        spark.sql(f"INSERT INTO records WITH ({servers}, topic = '{sink}') {wanted}")
    finally:
        spark.sql("DROP TABLE records")
    assert catchment_logs.settled_values(sink) == SENT


def test_a_stream_writes_through_foreach_batch(
    spark: SparkSession, catchment_logs: CatchmentLogs, source: str, tmp_path: Path
) -> None:
    sink = catchment_logs.topic()
    servers = {"kafka.bootstrap.servers": catchment_logs.bootstrap_servers}

    def write(rows: DataFrame, batch_id: int) -> None:
        rows.select("value").write.format("catchment").options(**servers, topic=sink).mode("append").save()

    rows = spark.readStream.format("catchment").options(**servers, subscribe=source, startingOffsets="earliest").load()
    query = rows.writeStream.foreachBatch(write).option("checkpointLocation", str(tmp_path)).trigger(availableNow=True)
    assert query.start().awaitTermination(TIMEOUT_S)
    assert catchment_logs.settled_values(sink) == SENT


def test_available_now_takes_what_is_there_in_batches_and_a_second_run_only_what_is_new(
    spark: SparkSession, catchment_logs: CatchmentLogs, source: str, tmp_path: Path
) -> None:
    sink = catchment_logs.topic()
    servers = {"kafka.bootstrap.servers": catchment_logs.bootstrap_servers}
    rows = spark.readStream.format("catchment").options(**servers, subscribe=source, startingOffsets="earliest")
    stream = rows.option("maxOffsetsPerTrigger", "20").load().select("value").writeStream.format("catchment")
    stream = stream.options(**servers, topic=sink, checkpointLocation=str(tmp_path)).trigger(availableNow=True)
    query = stream.start()
    assert query.awaitTermination(TIMEOUT_S)
    assert [progress.numInputRows for progress in query.recentProgress] == [20, 20, 10]
    catchment_logs.fill(source, [b"new"])
    assert stream.start().awaitTermination(TIMEOUT_S)
    assert catchment_logs.settled_values(sink) == [*SENT, b"new"]
