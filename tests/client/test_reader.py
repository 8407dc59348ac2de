"""Reading: exactly the records between the ends, from the current leaders, on both kinds of server."""

from __future__ import annotations

import itertools
import pickle
import threading
from collections.abc import Iterator

import pytest
from confluent_kafka import TopicPartition
from confluent_kafka.admin import AdminClient
from tests.client.logs import CatchmentLogs, Logs

from catchment.client.cluster import Cluster
from catchment.client.errors import BrokerError, TimedOut
from catchment.client.fetch.session import FetchLimits
from catchment.client.offsets import LATEST
from catchment.client.reader import OffsetOutOfRange, Reader, Span
from catchment.testing.embedded import Broker

SMALL = FetchLimits(max_bytes=4000, partition_max_bytes=1000, max_wait_ms=100)


@pytest.fixture
def cluster(logs: Logs) -> Iterator[Cluster]:
    with Cluster(logs.bootstrap_servers) as connected:
        yield connected


def numbered(count: int, prefix: str = "value") -> list[bytes]:
    return [f"{prefix}-{number}".encode() for number in range(count)]


def read_values(reader: Reader) -> dict[int, list[bytes]]:
    found: dict[int, list[bytes]] = {}
    for read in reader:
        found.setdefault(read.partition, []).extend(read.batch.column("value").to_pylist())
    return found


def test_a_span_returns_the_records_between_its_ends(logs: Logs, cluster: Cluster) -> None:
    topic = logs.topic()
    logs.fill(topic, numbered(100))
    with Reader(cluster, [Span(topic, 0, 10, 60)], columns=("offset", "value")) as reader:
        rows = [row for read in reader for row in read.batch.to_pylist()]
    assert rows == [{"offset": number, "value": f"value-{number}".encode()} for number in range(10, 60)]


def test_an_empty_span_sends_no_request(logs: Logs, cluster: Cluster) -> None:
    with Reader(cluster, [Span("there is no such topic", 0, 5, 5)]) as reader:
        assert reader.is_finished
        assert list(reader) == []


def test_many_partitions_are_read_in_many_small_responses_of_one_session(logs: Logs, cluster: Cluster) -> None:
    topic = logs.topic(partitions=5)
    expected = {}
    for partition in range(5):
        expected[partition] = numbered(200 * partition + 1, f"p{partition}")
        logs.fill(topic, expected[partition], partition=partition, settings={"batch.num.messages": 7})
    spans = [Span(topic, partition, 0, len(values)) for partition, values in expected.items()]
    with Reader(cluster, spans, limits=SMALL) as reader:
        assert read_values(reader) == expected
        assert reader.positions == {(topic, span.partition): span.end for span in spans}


@pytest.mark.parametrize("codec", ["gzip", "snappy", "lz4", "zstd"])
def test_every_codec_is_read(logs: Logs, cluster: Cluster, codec: str) -> None:
    topic = logs.topic()
    logs.fill(topic, numbered(500), settings={"compression.type": codec})
    with Reader(cluster, [Span(topic, 0, 3, 499)]) as reader:
        assert read_values(reader) == {0: numbered(500)[3:499]}


def test_only_uncommitted_reads_see_aborted_records(logs: Logs, cluster: Cluster) -> None:
    topic = logs.topic()
    logs.transaction(topic, numbered(3, "kept"), commit=True)
    logs.transaction(topic, numbered(3, "aborted"), commit=False)
    logs.fill(topic, numbered(3, "plain"))
    logs.settle(topic)
    end = cluster.list_offsets([(topic, 0)], LATEST, read_committed=True)[topic, 0].offset
    with Reader(cluster, [Span(topic, 0, 0, end)], read_committed=True) as reader:
        assert read_values(reader) == {0: numbered(3, "kept") + numbered(3, "plain")}
    with Reader(cluster, [Span(topic, 0, 0, end)], read_committed=False) as reader:
        assert read_values(reader) == {0: numbered(3, "kept") + numbered(3, "aborted") + numbered(3, "plain")}


def test_a_batch_larger_than_the_limits_is_read(logs: Logs, cluster: Cluster) -> None:
    topic = logs.topic()
    large = [b"x" * 50_000, b"y" * 60_000, b"z"]
    logs.fill(topic, large)
    with Reader(cluster, [Span(topic, 0, 0, 3)], limits=SMALL) as reader:
        assert read_values(reader) == {0: large}


def test_a_reader_without_an_end_reads_new_records(logs: Logs, cluster: Cluster) -> None:
    topic = logs.topic(partitions=2)
    logs.fill(topic, numbered(2, "before"))
    with Reader(cluster, [Span(topic, 0, 0), Span(topic, 1, 0)]) as reader:
        (first,) = reader.poll(10)
        assert first.batch.column("value").to_pylist() == numbered(2, "before")
        assert list(reader.poll(0.2)) == []
        writer = threading.Thread(target=logs.fill, args=(topic, numbered(2, "after")), kwargs={"partition": 1})
        writer.start()
        found = next(read for _ in range(100) for read in reader.poll(0.2))
        writer.join()
    assert (found.partition, found.batch.column("value")[0].as_py()) == (1, b"after-0")


def test_offsets_that_retention_has_deleted_are_reported(logs: Logs, cluster: Cluster) -> None:
    topic = logs.topic()
    logs.fill(topic, numbered(10))
    admin = AdminClient({"bootstrap.servers": logs.bootstrap_servers})
    for deleted in admin.delete_records([TopicPartition(topic, 0, 4)]).values():
        deleted.result(30)
    with Reader(cluster, [Span(topic, 0, 0, 10)]) as reader, pytest.raises(OffsetOutOfRange) as caught:
        list(reader)
    assert (caught.value.offset, caught.value.log_start, caught.value.log_end) == (0, 4, 10)
    assert f"offset 0 is deleted: partition 0 of topic {topic} has the offsets 4 to 10" in str(caught.value)
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_an_offset_beyond_the_end_of_the_log_is_out_of_range(logs: Logs, cluster: Cluster) -> None:
    topic = logs.topic()
    logs.fill(topic, numbered(10))
    with Reader(cluster, [Span(topic, 0, 20, 30)]) as reader, pytest.raises(OffsetOutOfRange, match="not been written"):
        list(reader)


def test_an_end_that_is_not_reached_in_time_is_an_error(logs: Logs, cluster: Cluster) -> None:
    topic = logs.topic()
    logs.fill(topic, numbered(3))
    with (
        Reader(cluster, [Span(topic, 0, 0, 4)], timeout_s=3, limits=SMALL) as reader,
        pytest.raises(TimedOut, match="returns no records from offset 3"),
    ):
        list(reader)


def test_a_missing_topic_is_an_error(logs: Logs, cluster: Cluster) -> None:
    with (
        Reader(cluster, [Span("absent", 0, 0, 4)], timeout_s=3) as reader,
        pytest.raises(BrokerError, match="absent"),
    ):
        list(reader)


def test_a_partition_named_twice_is_rejected(logs: Logs, cluster: Cluster) -> None:
    with pytest.raises(ValueError, match="named twice"):
        Reader(cluster, [Span("topic", 0, 0, 1), Span("topic", 0, 1, 2)])


@pytest.mark.parametrize(
    "error",
    [
        "NOT_LEADER_OR_FOLLOWER",
        "FENCED_LEADER_EPOCH",
        "UNKNOWN_LEADER_EPOCH",
        "FETCH_SESSION_ID_NOT_FOUND",
        "INVALID_FETCH_SESSION_EPOCH",
        "UNKNOWN_TOPIC_ID",
    ],
)
def test_a_reader_survives_retriable_errors_in_a_session(catchment_logs: CatchmentLogs, error: str) -> None:
    topic = catchment_logs.topic(partitions=3)
    expected = {partition: numbered(300, f"p{partition}") for partition in range(3)}
    for partition, values in expected.items():
        catchment_logs.fill(topic, values, partition=partition, settings={"batch.num.messages": 20})
    faults = catchment_logs.broker.faults
    found: dict[int, list[bytes]] = {}
    with (
        Cluster(catchment_logs.bootstrap_servers) as cluster,
        Reader(cluster, [Span(topic, number, 0, 300) for number in range(3)], limits=SMALL) as reader,
    ):
        for count, read in enumerate(reader):
            found.setdefault(read.partition, []).extend(read.batch.column("value").to_pylist())
            if count in (3, 9):
                faults.answer("Fetch", error)
            if count == 14:
                faults.drop_connections()
    assert faults.answers_left("Fetch") == 0
    assert found == expected


def test_an_error_that_is_not_retriable_is_raised(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    catchment_logs.broker.faults.answer("Fetch", "TOPIC_AUTHORIZATION_FAILED")
    with (
        Cluster(catchment_logs.bootstrap_servers) as cluster,
        Reader(cluster, [Span(topic, 0, 0, 1)]) as reader,
        pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED"),
    ):
        list(reader)


def test_a_reader_continues_after_a_restart_of_a_killed_broker() -> None:
    with Broker() as broker:
        logs = CatchmentLogs(broker)
        topic = logs.topic()
        logs.fill(topic, numbered(400), settings={"batch.num.messages": 10})
        with (
            Cluster(broker.bootstrap_servers) as cluster,
            Reader(cluster, [Span(topic, 0, 0, 400)], limits=SMALL) as reader,
        ):
            reads = iter(reader)
            values = [value for read in itertools.islice(reads, 5) for value in read.batch.column("value").to_pylist()]
            broker.kill()
            revival = threading.Timer(0.3, broker.start)
            revival.start()
            values += [value for read in reads for value in read.batch.column("value").to_pylist()]
            revival.join()
    assert values == numbered(400)
