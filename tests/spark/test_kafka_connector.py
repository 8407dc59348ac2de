"""Spark's own Kafka connector on a Catchment broker: batch, stream and sink, and the mode that answers in milliseconds."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from tests.client.logs import CatchmentLogs
from tests.waiting import wait_until

_SECONDS: Final = 60.0


@pytest.fixture
def servers(catchment_logs: CatchmentLogs) -> dict[str, str]:
    """How the connector finds the broker; its own wait of half a second for a first record is of no use here."""
    return {"kafka.bootstrap.servers": catchment_logs.bootstrap_servers, "kafka.fetch.max.wait.ms": "10"}


def values(frame: DataFrame) -> list[bytes]:
    return [bytes(row["value"]) for row in frame.sort("partition", "offset").collect()]


def wait_for_values(logs: CatchmentLogs, topic: str, count: int, query: StreamingQuery) -> list[bytes | None]:
    def has_all() -> bool:
        assert query.isActive, query.exception()
        return len(logs.values(topic)) >= count

    wait_until(has_all, lambda: f"{topic} holds {len(logs.values(topic))} of {count} records", _SECONDS)
    return logs.values(topic)


def test_a_batch_reads_committed_rows_between_two_offsets(
    spark_with_peer: SparkSession, catchment_logs: CatchmentLogs, servers: dict[str, str]
) -> None:
    topic = catchment_logs.topic()
    catchment_logs.fill(topic, [b"%d" % number for number in range(10)])
    catchment_logs.transaction(topic, [b"aborted"], commit=False)
    catchment_logs.transaction(topic, [b"committed"], commit=True)
    reader = spark_with_peer.read.format("kafka").options(**servers, subscribe=topic)
    committed = reader.options(
        **{"kafka.isolation.level": "read_committed"}, startingOffsets=f'{{"{topic}": {{"0": 8}}}}'
    ).load()
    assert values(committed) == [b"8", b"9", b"committed"]


def test_a_batch_writes_rows_with_keys_and_headers(
    spark_with_peer: SparkSession, catchment_logs: CatchmentLogs, servers: dict[str, str]
) -> None:
    topic = catchment_logs.topic(partitions=2)
    rows: list[tuple[Any, ...]] = [(b"k", b"first", [("h", b"1"), ("h", None)], 1), (None, None, None, 1)]
    schema = "key binary, value binary, headers array<struct<key: string, value: binary>>, partition int"
    frame = spark_with_peer.createDataFrame(rows, schema).coalesce(1)
    frame.write.format("kafka").options(**servers, topic=topic, includeHeaders="true").save()
    assert [(message.key(), message.value(), message.headers()) for message in catchment_logs.messages(topic, 1)] == [
        (b"k", b"first", [("h", b"1"), ("h", None)]),
        (None, None, None),
    ]
    assert catchment_logs.values(topic, 0) == []


def test_a_stream_copies_a_topic_and_goes_on_where_it_stopped(
    spark_with_peer: SparkSession, catchment_logs: CatchmentLogs, servers: dict[str, str], tmp_path: Path
) -> None:
    source, target = catchment_logs.topic(partitions=3), catchment_logs.topic()
    stream = spark_with_peer.readStream.format("kafka").options(**servers, subscribe=source, startingOffsets="earliest")

    def copy() -> None:
        writer = stream.load().select("key", "value").writeStream.format("kafka").options(**servers, topic=target)
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(int(_SECONDS)), "the stream does not end"

    for partition in range(3):
        catchment_logs.fill(source, [b"%d" % partition] * 5, partition=partition)
    copy()
    assert sorted(map(bytes, filter(None, catchment_logs.values(target)))) == sorted([b"0", b"1", b"2"] * 5)
    catchment_logs.fill(source, [b"late"])
    copy()
    assert catchment_logs.values(target)[15:] == [b"late"]


def test_a_running_stream_sees_what_is_written_after_its_start(
    spark_with_peer: SparkSession, catchment_logs: CatchmentLogs, servers: dict[str, str], tmp_path: Path
) -> None:
    source, target = catchment_logs.topic(), catchment_logs.topic()
    stream = spark_with_peer.readStream.format("kafka").options(**servers, subscribe=source, startingOffsets="earliest")
    counts = stream.load().groupBy("key").count().selectExpr("key", "cast(count as string) as value")
    writer = counts.writeStream.format("kafka").options(**servers, topic=target).outputMode("update")
    query = writer.option("checkpointLocation", str(tmp_path)).start()
    try:
        for count in range(1, 4):
            catchment_logs.fill(source, [b"again"])
            assert wait_for_values(catchment_logs, target, count, query)[-1] == b"%d" % count
    finally:
        query.stop()


def test_real_time_mode_answers_each_record_as_it_comes(
    spark_with_peer: SparkSession, catchment_logs: CatchmentLogs, servers: dict[str, str], tmp_path: Path
) -> None:
    source, target = catchment_logs.topic(), catchment_logs.topic()
    stream = spark_with_peer.readStream.format("kafka").options(**servers, subscribe=source, startingOffsets="earliest")
    writer = stream.load().select("key", "value").writeStream.format("kafka").options(**servers, topic=target)
    # A batch of this mode lasts as long as its trigger says; its records are not to wait for its end. PySpark's type
    # declarations have not heard of the mode.
    real_time: dict[str, Any] = {"realTime": "1 minute"}
    query = writer.option("checkpointLocation", str(tmp_path)).outputMode("update").trigger(**real_time).start()
    try:
        producer = Producer({"bootstrap.servers": catchment_logs.bootstrap_servers, "linger.ms": 0})
        consumer = Consumer({"bootstrap.servers": catchment_logs.bootstrap_servers, "group.id": "answers"})
        consumer.assign([TopicPartition(target, 0, 0)])
        for number in range(20):
            producer.produce(source, b"%d" % number)
            assert producer.flush(_SECONDS) == 0
            answer = consumer.poll(_SECONDS)
            assert answer is not None, query.exception()
            assert answer.value() == b"%d" % number
        consumer.close()
        assert query.lastProgress is None, "the answers came at the end of a batch"
    finally:
        query.stop()
