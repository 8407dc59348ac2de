"""What the sink writes for which rows: keys, values, headers, partitions, times and topics, as Spark's own sink does."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pyarrow
import pytest
from confluent_kafka import Producer
from kio.schema.describe_producers.v0.request import DescribeProducersRequest, TopicRequest
from kio.schema.types import TopicName
from kio.static.primitive import i32
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DoubleType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
    TimestampType,
)
from tests.client.logs import CatchmentLogs, Logs
from tests.spark.sink_query import write_batch

from catchment.client.cluster import Cluster
from catchment.client.errors import BrokerError, ClientError, RecordTooLarge, SettingsError
from catchment.spark.sink import rows as sink_rows
from catchment.spark.sink.batch_writer import BatchWriter

HEADERS = "array<struct<key:string,value:binary>>"
KINDS: dict[str, DataType] = {
    kind.simpleString(): kind
    for kind in (
        StringType(),
        BinaryType(),
        IntegerType(),
        LongType(),
        DoubleType(),
        TimestampType(),
        ArrayType(StringType()),
        ArrayType(StructType().add("key", "string").add("value", "binary")),
        StructType().add("a", IntegerType()),
    )
}
ARROW_HEADERS = pyarrow.list_(pyarrow.struct([("key", pyarrow.string()), ("value", pyarrow.binary())]))


def schema(**columns: str) -> StructType:
    return StructType([StructField(name, KINDS[kind]) for name, kind in columns.items()])


VALUES = schema(value="string")


def write(
    monkeypatch: pytest.MonkeyPatch,
    logs: Logs,
    columns: StructType,
    rows: Sequence[pyarrow.RecordBatch],
    **options: str,
) -> None:
    named = {name.replace("_", "."): value for name, value in options.items()}
    writer, messages = write_batch(
        monkeypatch, {"kafka.bootstrap.servers": logs.bootstrap_servers, **named}, columns, rows
    )
    writer.commit(messages)


@pytest.fixture(params=["exactlyOnce", "atLeastOnce"])
def guarantee(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def test_all_columns_are_written_and_others_are_not(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, guarantee: str
) -> None:
    topic = logs.topic(partitions=3)
    when = datetime(2020, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    rows = pyarrow.record_batch(
        {
            "key": pyarrow.array([b"k", None, b""]),
            "value": pyarrow.array([b"v", b"", None]),
            "headers": pyarrow.array(
                [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None, []], ARROW_HEADERS
            ),
            "partition": pyarrow.array([2, 2, 2], pyarrow.int32()),
            "timestamp": pyarrow.array([when, when, when], pyarrow.timestamp("us", "UTC")),
            "offset": pyarrow.array([7, 8, 9]),
        }
    )
    columns = schema(
        key="binary", value="binary", headers=HEADERS, partition="int", timestamp="timestamp", offset="bigint"
    )
    write(monkeypatch, logs, columns, [rows], topic=topic, deliveryGuarantee=guarantee)
    logs.settle(topic, 2)
    found = list(logs.messages(topic, 2))
    assert [(one.key(), one.value()) for one in found] == [(b"k", b"v"), (None, b""), (b"", None)]
    assert [one.headers() or [] for one in found] == [[("h", b"1"), ("h", None)], [], []]
    assert {one.timestamp()[1] for one in found} == {int(when.timestamp() * 1000)}


def test_headers_may_be_the_json_that_spark_makes_of_them(
    catchment_logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = catchment_logs.topic()
    texts = ['[{"key":"h","value":"MQ=="},{"key":"ü"}]', None, "[]", '[{"key":"","value":""}]']
    rows = pyarrow.record_batch({"value": pyarrow.array([b"0", b"1", b"2", b"3"]), "headers": texts})
    nothing = pyarrow.record_batch({"value": pyarrow.array([b"4"]), "headers": pyarrow.array([None], pyarrow.string())})
    write(monkeypatch, catchment_logs, schema(value="binary", headers="string"), [rows], topic=topic)
    write(monkeypatch, catchment_logs, schema(value="binary", headers="string"), [nothing], topic=topic)
    large = pyarrow.record_batch({"value": [b"5"], "headers": pyarrow.array([texts[0]], pyarrow.large_string())})
    write(monkeypatch, catchment_logs, schema(value="binary", headers="string"), [large], topic=topic)
    catchment_logs.settle(topic)
    found = [one.headers() or [] for one in catchment_logs.messages(topic)]
    assert found == [[("h", b"1"), ("ü", None)], [], [], [("", b"")], [], [("h", b"1"), ("ü", None)]]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{",
        "7",
        '{"key":"h"}',
        '["h"]',
        '[{"value":""}]',
        '[{"key":7}]',
        '[{"key":null}]',
        '[{"key":"h","value":"?"}]',
        '[{"key":"h","value":7}]',
    ],
)
def test_text_that_holds_no_headers_is_refused(
    catchment_logs: Logs, monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    topic = catchment_logs.topic()
    rows = pyarrow.record_batch({"value": pyarrow.array([b"0"]), "headers": [text]})
    with pytest.raises(SettingsError, match="these are no headers"):
        write(monkeypatch, catchment_logs, schema(value="binary", headers="string"), [rows], topic=topic)
    assert catchment_logs.settled_values(topic) == []


def test_a_null_partition_leaves_the_choice_to_the_key_as_the_java_client_chooses(
    catchment_logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    ours, theirs = catchment_logs.topic(partitions=5), catchment_logs.topic(partitions=5)
    keys = [f"key {number}" * (number % 7) for number in range(300)]
    rows = pyarrow.record_batch(
        {"key": keys, "value": keys, "partition": pyarrow.array([None] * len(keys), pyarrow.int32())}
    )
    write(monkeypatch, catchment_logs, schema(key="string", value="string", partition="int"), [rows], topic=ours)
    producer = Producer({"bootstrap.servers": catchment_logs.bootstrap_servers, "partitioner": "murmur2_random"})
    for key in keys:
        producer.produce(theirs, key.encode(), key=key.encode())
    assert producer.flush(30) == 0
    for partition in range(5):
        assert catchment_logs.settled_values(ours, partition) == catchment_logs.values(theirs, partition)


def test_numbers_of_seconds_are_times(catchment_logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = catchment_logs.topic()
    rows = pyarrow.record_batch({"value": ["v"], "timestamp": [1577934245.678]})
    write(monkeypatch, catchment_logs, schema(value="string", timestamp="double"), [rows], topic=topic)
    catchment_logs.settle(topic)
    assert [one.timestamp()[1] for one in catchment_logs.messages(topic)] == [1577934245678]


def test_rows_go_to_the_topics_that_they_name_in_their_order(logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    topics = [logs.topic(), logs.topic()]
    rows = pyarrow.record_batch({"topic": [topics[n % 2] for n in range(6)], "value": [f"{n}" for n in range(6)]})
    write(monkeypatch, logs, schema(topic="string", value="string"), [rows])
    assert [logs.settled_values(topic) for topic in topics] == [[b"0", b"2", b"4"], [b"1", b"3", b"5"]]


def test_the_option_topic_is_for_all_rows(catchment_logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = catchment_logs.topic()
    rows = pyarrow.record_batch({"topic": ["elsewhere", None], "value": ["0", "1"]})
    write(monkeypatch, catchment_logs, schema(topic="string", value="string"), [rows], topic=topic)
    assert catchment_logs.settled_values(topic) == [b"0", b"1"]


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_rows_are_compressed_as_asked(logs: Logs, monkeypatch: pytest.MonkeyPatch, codec: str) -> None:
    topic = logs.topic()
    rows = pyarrow.record_batch({"value": ["value" * 100] * 100})
    write(monkeypatch, logs, VALUES, [rows], topic=topic, kafka_compression_type=codec)
    assert logs.settled_values(topic) == [b"value" * 100] * 100


def test_small_batches_are_joined_and_large_ones_are_not() -> None:
    small = [pyarrow.record_batch({"value": [f"{n}"]}) for n in range(10)]
    (piece,) = sink_rows.pieces(small)
    assert piece.column("value").to_pylist() == [f"{n}" for n in range(10)]
    large = pyarrow.record_batch({"value": ["x" * (9 * 1024 * 1024)]})
    assert [piece.num_rows for piece in sink_rows.pieces([large, large, *small])] == [1, 1, 10]
    assert list(sink_rows.pieces([small[0].slice(0, 0)])) == []


def test_small_batches_without_keys_reach_every_partition(
    catchment_logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = catchment_logs.topic(partitions=3)
    rows = [pyarrow.record_batch({"value": [f"{number}"]}) for number in range(3)]
    write(monkeypatch, catchment_logs, VALUES, rows, topic=topic)
    assert [catchment_logs.settled_values(topic, number) for number in range(3)] == [[b"0"], [b"1"], [b"2"]]


def test_a_worker_that_writes_at_least_once_is_one_producer_to_the_brokers(
    catchment_logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = catchment_logs.topic()
    for number in range(5):
        rows = pyarrow.record_batch({"value": [str(number)]})
        write(monkeypatch, catchment_logs, VALUES, [rows], topic=topic, deliveryGuarantee="atLeastOnce")
    with Cluster(catchment_logs.bootstrap_servers) as cluster:
        assert len(active_producers(cluster, topic)) == 1
    assert catchment_logs.values(topic) == [b"0", b"1", b"2", b"3", b"4"]


def test_a_producer_that_has_failed_is_not_used_again(
    catchment_logs: CatchmentLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = catchment_logs.topic(max_message_bytes="1000")
    options = {"topic": topic, "deliveryGuarantee": "atLeastOnce"}
    large = pyarrow.record_batch({"value": ["x" * 5_000]})
    with pytest.raises(BrokerError):
        write(monkeypatch, catchment_logs, VALUES, [large], **options)
    write(monkeypatch, catchment_logs, VALUES, [pyarrow.record_batch({"value": ["after"]})], **options)
    assert catchment_logs.values(topic) == [b"after"]


def active_producers(cluster: Cluster, topic: str) -> list[int]:
    partition = TopicRequest(name=TopicName(topic), partition_indexes=(i32(0),))
    answer = cluster.ask(DescribeProducersRequest(topics=(partition,)), to=cluster.leader(topic, 0).broker_id)
    return [one.producer_id for one in answer.topics[0].partitions[0].active_producers]


def test_a_job_without_rows_writes_nothing(catchment_logs: Logs, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = catchment_logs.topic()
    write(
        monkeypatch, catchment_logs, VALUES, [pyarrow.record_batch({"value": pyarrow.array([], "string")})], topic=topic
    )
    assert catchment_logs.settled_values(topic) == []


def test_rows_of_a_job_are_invisible_until_it_commits_and_for_ever_if_it_aborts(
    logs: Logs, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = logs.topic()
    options = {"kafka.bootstrap.servers": logs.bootstrap_servers, "topic": topic}
    rows = [pyarrow.record_batch({"value": [f"{n}"]}) for n in range(2)]
    writer, messages = write_batch(monkeypatch, options, VALUES, rows)
    assert logs.values(topic) == []
    writer.commit(messages)
    assert logs.settled_values(topic) == [b"0", b"1"]
    writer, messages = write_batch(monkeypatch, options, VALUES, rows)
    writer.abort([messages[0], None])
    assert logs.settled_values(topic) == [b"0", b"1"]


@pytest.mark.parametrize(
    ("columns", "options", "message"),
    [
        (schema(key="string"), {"topic": "t"}, "no column value among key"),
        (schema(value="int"), {"topic": "t"}, "column value is of type int. It must be string or binary"),
        (schema(value="string", key="struct<a:int>"), {"topic": "t"}, "column key is of type struct<a:int>"),
        (schema(value="string", partition="bigint"), {"topic": "t"}, "column partition is of type bigint"),
        (schema(value="string", topic="binary"), {}, "column topic is of type binary"),
        (schema(value="string", headers="array<string>"), {"topic": "t"}, "column headers is of type array<string>"),
        (schema(value="string", timestamp="string"), {"topic": "t"}, "column timestamp is of type string"),
        (schema(value="string"), {}, "no topic is named"),
    ],
)
def test_wrong_columns_are_refused_before_a_task_runs(
    columns: StructType, options: dict[str, str], message: str
) -> None:
    with pytest.raises(SettingsError, match=message):
        BatchWriter({"kafka.bootstrap.servers": "localhost:9", **options}, columns, overwrite=False)


def test_a_topic_cannot_be_overwritten() -> None:
    with pytest.raises(SettingsError, match=r'cannot be overwritten. Use .mode\("append"\)'):
        BatchWriter({"kafka.bootstrap.servers": "localhost:9", "topic": "t"}, VALUES, overwrite=True)


@pytest.mark.parametrize(
    ("rows", "error", "message"),
    [
        ({"topic": ["no topic"], "value": ["v"]}, BrokerError, "no topic.*INVALID_TOPIC_EXCEPTION"),
        ({"topic": [None], "value": ["v"]}, SettingsError, "1 rows have no topic"),
        ({"topic": ["{topic}"], "value": ["x" * 2_000_000]}, RecordTooLarge, "Raise kafka.max.request.size"),
        ({"topic": ["{topic}"], "value": ["x" * 2_000]}, BrokerError, "MESSAGE_TOO_LARGE.*max.message.bytes"),
    ],
)
def test_rows_that_cannot_be_written_fail_their_task_and_leave_nothing_open(
    logs: Logs, monkeypatch: pytest.MonkeyPatch, rows: dict[str, list[Any]], error: type[ClientError], message: str
) -> None:
    topic = logs.topic(max_message_bytes="1000")
    logs.fill(topic, [b"before"])
    topics = pyarrow.array([name and name.format(topic=topic) for name in rows["topic"]], pyarrow.string())
    batch = pyarrow.record_batch({"topic": topics, "value": rows["value"]})
    with pytest.raises(error, match=message):
        write(monkeypatch, logs, schema(topic="string", value="string"), [batch])
    assert logs.settled_values(topic) == [b"before"]
