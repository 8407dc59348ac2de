"""The ceiling under real clients, and the loads of the benchmark against it."""

import uuid
from collections.abc import Iterator

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition

from catchment.bench.client.load import LOADS, Load
from catchment.bench.client.run import run_load
from catchment.bench.peers.catchment import CeilingServer
from catchment.bench.results import Results
from catchment.bench.runner import Progress, Session, run
from catchment.bench.target import UNFLUSHED
from catchment.bench.workloads.java_tools import served_api_keys
from catchment.bench.workloads.throughput import Throughput


@pytest.fixture(scope="module")
def ceiling() -> Iterator[CeilingServer]:
    with CeilingServer() as server:
        yield server


def test_a_producer_is_acknowledged_and_a_consumer_reads_what_was_sent_last(ceiling: CeilingServer) -> None:
    topic = f"topic-{uuid.uuid4()}"
    offsets: list[int | None] = []
    producer = Producer({"bootstrap.servers": ceiling.bootstrap_servers, "linger.ms": 0})
    for number in range(3):
        producer.produce(
            topic, b"record", partition=0, on_delivery=lambda error, message: offsets.append(message.offset())
        )
        assert producer.flush(10) == 0, number
    assert offsets == [0, 1, 2]
    consumer = Consumer(
        {"bootstrap.servers": ceiling.bootstrap_servers, "group.id": "none", "enable.auto.commit": False}
    )
    consumer.assign([TopicPartition(topic, 0, 0)])
    messages = consumer.consume(3, timeout=20)
    consumer.close()
    assert [(message.offset(), message.value()) for message in messages] == [(offset, b"record") for offset in range(3)]


def test_the_served_apis_are_asked_of_the_server_itself(ceiling: CeilingServer) -> None:
    assert served_api_keys("127.0.0.1", ceiling.port) == {0, 1, 2, 3, 18, 19, 22}


def test_the_server_is_watched_through_its_process(ceiling: CeilingServer) -> None:
    assert ceiling.start_seconds > 0
    assert ceiling.process.resident_bytes() > 1_000_000
    assert ceiling.process.cpu_seconds() > 0


@pytest.mark.parametrize("kind", [kind for kind in LOADS if kind != "consume"])
def test_every_load_runs_in_its_own_process_and_returns_positive_numbers(ceiling: CeilingServer, kind: str) -> None:
    topic = f"topic-{uuid.uuid4()}"
    load = Load(kind, ceiling.bootstrap_servers, topic, records=200, record_bytes=100, rate=1_000)
    values = run_load(load)
    assert values
    assert all(value > 0 for value in values.values())


def test_a_client_that_fails_says_why(ceiling: CeilingServer) -> None:
    load = Load("produce", ceiling.bootstrap_servers, "topic", records=10, record_bytes=100, codec="no-such-codec")
    with pytest.raises(RuntimeError, match="no-such-codec"):
        run_load(load)


def test_a_workload_fills_its_rows_once_a_round() -> None:
    workload = Throughput(1_000, 2_000, partitions=3, codec="lz4", watches_costs=True)
    results = Results(peers=[])
    steps: list[str] = []
    progress = Progress(describe=steps.append, advance=lambda: None)
    run([Session(UNFLUSHED, [workload])], ["ceiling"], 2, results, progress)
    assert results.failures == []
    assert [row.measure.key for row in results.rows()] == [measure.key for measure in workload.measures]
    assert all(len(row.rounds["ceiling"]) == 2 for row in results.rows())
    assert len(steps) == 1 + 2
