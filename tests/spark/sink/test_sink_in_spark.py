"""The sink inside Spark: batch jobs and streams, restarted and repeated, on a broker of either kind."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.client.logs import Logs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PARTITIONS = 2


def written(logs: Logs, topic: str) -> Counter[str]:
    values = [value for partition in range(PARTITIONS) for value in logs.settled_values(topic, partition)]
    return Counter((value or b"").decode() for value in values)


def write(rows: DataFrame, logs: Logs, topic: str, **options: str) -> None:
    writer = rows.write.format("catchment").mode("append").options(**options)
    writer.option("kafka.bootstrap.servers", logs.bootstrap_servers).option("topic", topic).save()


def run_stream(rows: DataFrame, logs: Logs, topic: str, checkpoint: Path, mode: str = "append", **options: str) -> None:
    """Run a query over all there is, and wait for its end."""
    writer = rows.writeStream.format("catchment").options(**options).option("checkpointLocation", str(checkpoint))
    writer = writer.option("kafka.bootstrap.servers", logs.bootstrap_servers).option("topic", topic)
    query = writer.outputMode(mode).trigger(availableNow=True).start()
    try:
        assert query.awaitTermination(120)
    finally:
        query.stop()


def stream_of(spark: SparkSession, logs: Logs, topic: str) -> DataFrame:
    source = spark.readStream.format("catchment").option("kafka.bootstrap.servers", logs.bootstrap_servers)
    return source.option("subscribe", topic).option("startingOffsets", "earliest").load()


def forget_last_batch(checkpoint: Path) -> None:
    """Undo Spark's note that the last batch is done, as if it had been killed before it wrote it."""
    newest = max(int(path.name) for path in (checkpoint / "commits").iterdir() if path.name.isdecimal())
    (checkpoint / "commits" / str(newest)).unlink()
    (checkpoint / "commits" / f".{newest}.crc").unlink(missing_ok=True)


@pytest.mark.parametrize("guarantee", ["exactlyOnce", "atLeastOnce"])
def test_a_batch_job_writes_each_row_once(spark: SparkSession, logs: Logs, guarantee: str) -> None:
    topic = logs.topic(PARTITIONS)
    rows = spark.range(0, 5000, numPartitions=3).selectExpr("cast(id as string) key", "concat('row ', id) value")
    write(rows, logs, topic, deliveryGuarantee=guarantee)
    assert written(logs, topic) == Counter(f"row {number}" for number in range(5000))


def test_a_job_with_a_failing_task_writes_nothing(spark: SparkSession, logs: Logs) -> None:
    topic = logs.topic(PARTITIONS)
    rows = spark.range(0, 100, numPartitions=2).selectExpr(
        "if(id < 99, cast(id as string), raise_error('row 99 is bad')) value"
    )
    with pytest.raises(Exception, match="row 99 is bad"):
        write(rows, logs, topic)
    assert written(logs, topic) == Counter()


@pytest.mark.parametrize("guarantee", ["exactlyOnce", "atLeastOnce"])
def test_a_stream_goes_on_where_it_stopped(spark: SparkSession, logs: Logs, tmp_path: Path, guarantee: str) -> None:
    source, target = logs.topic(PARTITIONS), logs.topic(PARTITIONS)
    for run in range(2):
        logs.fill(source, [b"%d-%d" % (run, number) for number in range(100)], partition=run)
        run_stream(stream_of(spark, logs, source), logs, target, tmp_path, deliveryGuarantee=guarantee)
    assert written(logs, target) == Counter(f"{run}-{number}" for run in range(2) for number in range(100))


def test_a_batch_that_spark_repeats_after_its_commit_is_not_written_again(
    spark: SparkSession, logs: Logs, tmp_path: Path
) -> None:
    source, target = logs.topic(PARTITIONS), logs.topic(PARTITIONS)
    logs.fill(source, [b"a", b"b", b"a"])
    counts = stream_of(spark, logs, source).groupBy("value").count()
    rows = counts.selectExpr("value key", "concat(cast(value as string), ' ', count) value")
    run_stream(rows, logs, target, tmp_path, "complete")
    forget_last_batch(tmp_path)
    run_stream(rows, logs, target, tmp_path, "complete")
    assert written(logs, target) == Counter(["a 2", "b 1"])
    logs.fill(source, [b"b"])
    run_stream(rows, logs, target, tmp_path, "complete")
    assert written(logs, target) == Counter(["a 2", "b 1", "a 2", "b 2"])


def test_a_batch_function_writes_as_a_batch_job(spark: SparkSession, catchment_logs: Logs, tmp_path: Path) -> None:
    source, target = catchment_logs.topic(PARTITIONS), catchment_logs.topic(PARTITIONS)
    catchment_logs.fill(source, [b"1", b"2"])

    def write_batch(rows: DataFrame, batch_id: int) -> None:
        write(rows.select("value"), catchment_logs, target)

    stream = stream_of(spark, catchment_logs, source).writeStream.foreachBatch(write_batch)
    query = stream.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert query.awaitTermination(120)
    assert written(catchment_logs, target) == Counter(["1", "2"])


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"topic": "no topic"}, "no topic.*INVALID_TOPIC_EXCEPTION"),
        ({"kafka.transaction.timeout.ms": "900001"}, "raise transaction.max.timeout.ms"),
        ({"deliveryGuarantee": "sometimes"}, "Choose exactlyOnce or atLeastOnce"),
    ],
)
def test_errors_say_what_is_wrong(
    spark: SparkSession, catchment_logs: Logs, options: dict[str, str], message: str
) -> None:
    topic = catchment_logs.topic(PARTITIONS)
    rows = spark.range(3).selectExpr("cast(id as string) value")
    writer = rows.write.format("catchment").mode("append")
    writer = writer.option("kafka.bootstrap.servers", catchment_logs.bootstrap_servers).option("topic", topic)
    with pytest.raises(Exception, match=message):
        writer.options(**options).save()
    assert written(catchment_logs, topic) == Counter()
