"""Writing: every row once, in order within its partition, in the partition of its key, whatever fails meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime

import pyarrow
import pytest
from confluent_kafka import Producer as ConfluentProducer
from tests.client.logs import CatchmentLogs, Logs

from catchment.client.cluster import Cluster
from catchment.client.errors import BrokerError, ClientError, TimedOut
from catchment.client.produce.queue import Written
from catchment.client.producer import Producer
from catchment.client.settings import Codec
from catchment.testing.embedded import Broker


@pytest.fixture
def cluster(logs: Logs) -> Iterator[Cluster]:
    with Cluster(logs.bootstrap_servers) as connected:
        yield connected


def numbered(count: int, prefix: str = "value") -> list[bytes]:
    return [f"{prefix}-{number}".encode() for number in range(count)]


def table(values: list[bytes]) -> pyarrow.Table:
    return pyarrow.table({"value": values})


def test_rows_arrive_with_all_their_columns(logs: Logs, cluster: Cluster) -> None:
    topic = logs.topic()
    moment = datetime(2026, 1, 2, 3, 4, 5, 678000, tzinfo=UTC)
    rows = pyarrow.table(
        {
            "key": [b"k", None],
            "value": [b"v", None],
            "headers": [[{"key": "h", "value": b"1"}, {"key": "h", "value": None}], None],
            "timestamp": [moment, None],
            "something else": [1, 2],
        }
    )
    before_ms = datetime.now(UTC).timestamp() * 1000
    with Producer(cluster) as producer:
        producer.write(topic, rows)
        assert producer.flush() == {(topic, 0): Written(0, 2, 2)}
    first, second = logs.messages(topic)
    assert (first.key(), first.value(), first.headers()) == (b"k", b"v", [("h", b"1"), ("h", None)])
    assert first.timestamp()[1] == round(moment.timestamp() * 1000)
    assert (second.key(), second.value(), second.headers()) == (None, None, None)
    assert second.timestamp()[1] >= before_ms - 1


def test_a_missing_topic_is_created_as_brokers_do_for_producers(logs: Logs, cluster: Cluster) -> None:
    topic = f"{logs.topic()}-new"
    with Producer(cluster) as producer:
        producer.write(topic, table([b"first"]))
    assert [one.value() for one in logs.messages(topic)] == [b"first"]


def test_a_missing_topic_that_brokers_do_not_create_is_reported() -> None:
    with (
        Broker(settings={"auto.create.topics.enable": "false"}) as broker,
        Cluster(broker.bootstrap_servers) as connected,
        Producer(connected) as producer,
        pytest.raises(BrokerError, match=r"topic orders: it does not exist .*Create it"),
    ):
        producer.write("orders", table([b"first"]))


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_other_clients_read_every_codec(logs: Logs, cluster: Cluster, codec: Codec) -> None:
    topic = logs.topic()
    with Producer(cluster, codec=codec, max_batch_bytes=2000) as producer:
        producer.write(topic, table(numbered(1000)))
    assert logs.values(topic) == numbered(1000)


def test_keys_go_to_the_same_partitions_as_with_other_clients(logs: Logs, cluster: Cluster) -> None:
    ours, theirs = logs.topic(partitions=7), logs.topic(partitions=7)
    keys = [f"key {number}".encode() for number in range(200)]
    with Producer(cluster) as producer:
        producer.write(ours, pyarrow.table({"key": keys, "value": keys}))
    other = ConfluentProducer({"bootstrap.servers": logs.bootstrap_servers, "partitioner": "murmur2_random"})
    for key in keys:
        other.produce(theirs, key, key=key)
    assert other.flush(30) == 0
    for partition in range(7):
        assert logs.values(ours, partition) == logs.values(theirs, partition)


def test_added_partitions_get_rows_from_a_running_producer(
    catchment_logs: CatchmentLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = catchment_logs.topic()
    keys = [f"key {number}".encode() for number in range(50)]
    rows = pyarrow.table({"key": keys, "value": keys})
    with Cluster(catchment_logs.bootstrap_servers) as cluster:
        with Producer(cluster) as producer:
            producer.write(topic, rows)
        catchment_logs.grow(topic, 4)
        monkeypatch.setattr("catchment.client.producer._METADATA_AGE_S", 0.0)
        with Producer(cluster) as producer:
            producer.write(topic, rows)
            assert {partition for _, partition in producer.flush()} == {0, 1, 2, 3}


def test_a_row_may_name_a_partition_that_was_just_added(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    with Cluster(catchment_logs.bootstrap_servers) as cluster, Producer(cluster) as producer:
        producer.write(topic, table([b"first"]))
        catchment_logs.grow(topic, 2)
        producer.write(topic, pyarrow.table({"value": [b"second"], "partition": [1]}))
        with pytest.raises(ValueError, match="names partition 2, the topic has 2"):
            producer.write(topic, pyarrow.table({"value": [b"third"], "partition": [2]}))
        catchment_logs.grow(topic, 3)
        producer.write(topic, table([b"third"]), partition=2)
    assert [catchment_logs.values(topic, partition) for partition in (1, 2)] == [[b"second"], [b"third"]]


@pytest.mark.parametrize("partition", [-1, 3])
def test_a_missing_partition_is_reported_at_once(catchment_logs: CatchmentLogs, partition: int) -> None:
    topic = catchment_logs.topic(partitions=3)
    with (
        Cluster(catchment_logs.bootstrap_servers) as cluster,
        Producer(cluster) as producer,
        pytest.raises(ValueError, match=f"has no partition {partition}: it has 3"),
    ):
        producer.write(topic, table([b"lost"]), partition=partition)


def test_rows_without_a_key_go_to_all_partitions_in_order(logs: Logs, cluster: Cluster) -> None:
    topic = logs.topic(partitions=3)
    with Producer(cluster) as producer:
        producer.write(topic, table(numbered(9000)))
        written = producer.flush()
    assert [written[topic, partition].record_count for partition in range(3)] == [3000, 3000, 3000]
    assert [value for partition in range(3) for value in logs.values(topic, partition)] == numbered(9000)


def test_small_writes_without_a_key_rotate_partitions(logs: Logs, cluster: Cluster) -> None:
    topic = logs.topic(partitions=3)
    with Producer(cluster) as producer:
        for number in range(6):
            producer.write(topic, table([b"%d" % number]))
    assert [logs.values(topic, partition) for partition in range(3)] == [[b"0", b"3"], [b"1", b"4"], [b"2", b"5"]]


def test_a_row_may_name_its_partition(logs: Logs, cluster: Cluster) -> None:
    topic = logs.topic(partitions=3)
    rows = pyarrow.table({"value": [b"a", b"b", b"c"], "key": [b"k", b"k", b"k"], "partition": [2, 0, 2]})
    with Producer(cluster) as producer:
        producer.write(topic, rows)
        producer.write(topic, rows, partition=1)
        with pytest.raises(ValueError, match="names partition 3, the topic has 3"):
            producer.write(topic, pyarrow.table({"value": [b"a"], "partition": [3]}))
    assert [logs.values(topic, partition) for partition in range(3)] == [[b"b"], [b"a", b"b", b"c"], [b"a", b"c"]]


def test_a_rejected_batch_ends_the_producer(logs: Logs, cluster: Cluster) -> None:
    topic = logs.topic(max_message_bytes="1000")
    producer = Producer(cluster)
    producer.write(topic, table([b"x" * 2000]))
    with pytest.raises(BrokerError, match=f"cannot write to partition 0 of topic {topic}.*MESSAGE_TOO_LARGE"):
        producer.flush()
    with pytest.raises(BrokerError, match="MESSAGE_TOO_LARGE"):
        producer.write(topic, table([b"small"]))
    producer.close()
    assert logs.values(topic) == []


@pytest.mark.parametrize(
    "error", ["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "REQUEST_TIMED_OUT", "UNKNOWN_TOPIC_OR_PARTITION"]
)
def test_retriable_errors_neither_lose_nor_repeat_nor_reorder(catchment_logs: CatchmentLogs, error: str) -> None:
    topic = catchment_logs.topic(partitions=3)
    faults = catchment_logs.broker.faults
    with Cluster(catchment_logs.bootstrap_servers) as cluster, Producer(cluster, max_batch_bytes=2000) as producer:
        for partition in range(3):
            faults.answer("Produce", error, times=2)
            producer.write(topic, table(numbered(2000, f"p{partition}")), partition=partition)
        faults.drop_connections()
        written = producer.flush()
    assert faults.answers_left("Produce") == 0
    for partition in range(3):
        assert catchment_logs.values(topic, partition) == numbered(2000, f"p{partition}")
        assert written[topic, partition].record_count == 2000


def test_lost_responses_neither_lose_nor_repeat(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    faults = catchment_logs.broker.faults
    with Cluster(catchment_logs.bootstrap_servers) as cluster, Producer(cluster, max_batch_bytes=500) as producer:
        for number in range(40):
            producer.write(topic, table(numbered(50, f"{number}")))
            faults.drop_connections()
    expected = [value for number in range(40) for value in numbered(50, f"{number}")]
    assert catchment_logs.values(topic) == expected


def test_a_killed_and_restarted_broker_has_every_row_once() -> None:
    with Broker() as broker:
        logs = CatchmentLogs(broker)
        topic = logs.topic()
        with Cluster(broker.bootstrap_servers) as cluster, Producer(cluster, max_batch_bytes=500) as producer:
            producer.write(topic, table(numbered(500, "before")))
            broker.kill()
            revival = threading.Timer(0.3, broker.start)
            revival.start()
            producer.write(topic, table(numbered(500, "after")))
            producer.flush()
            revival.join()
        assert logs.values(topic) == numbered(500, "before") + numbered(500, "after")


def test_rows_without_a_broker_in_time_are_an_error() -> None:
    with Broker() as broker:
        broker.create_topic("topic")
        cluster = Cluster(broker.bootstrap_servers, {"retry.backoff.ms": "10"}, timeout_s=1)
        producer = Producer(cluster, delivery_timeout_s=3)
        producer.write("topic", table([b"acknowledged"]))
        producer.flush()
        broker.stop()
        producer.write("topic", table([b"lost"]))
        with pytest.raises(TimedOut, match="partition 0 of topic topic accepted no records in time"):
            producer.flush()
        producer.close()
        cluster.close()


def test_a_broker_that_stops_responding_is_an_error_in_time() -> None:
    with Broker() as broker, Cluster(broker.bootstrap_servers) as cluster:
        broker.create_topic("topic")
        with closing(Producer(cluster, delivery_timeout_s=3)) as producer:
            producer.write("topic", table([b"acknowledged"]))
            producer.flush()
            broker.faults.delay_connections(20)
            producer.write("topic", table([b"late"]))
            with pytest.raises(TimedOut, match="accepted no records in time"):
                producer.flush()


def test_a_producer_without_a_transactional_id_has_no_transactions(logs: Logs, cluster: Cluster) -> None:
    with Producer(cluster) as producer:
        with pytest.raises(ClientError, match="no transactional id"):
            producer.begin()
        with pytest.raises(ClientError, match="no transaction is open"):
            producer.commit()
