"""sarama, franz-go, kafka-go and kafkajs: records both ways, groups whose members die, exactly-once copies, administration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.child_broker import ChildBroker
from tests.compat.clients.client import Record
from tests.compat.clients.committed_reader import CommittedReader
from tests.compat.clients.librdkafka import Librdkafka
from tests.compat.fed_topic import PARTITIONS, TOPIC, Feed, broker_with_topic
from tests.compat.outside.other_languages import CLIENTS, CODECS, TRANSACTIONAL, LanguageProgram
from tests.compat.program import TIMEOUT_S, until

from catchment.testing.embedded import Broker

# The first of them builds the programs.
pytestmark = pytest.mark.timeout(1500)
_COUNT = 300
_AT_ONCE = 1000
_COPY_PARTITIONS = 2
Row = tuple[str, str, tuple[tuple[str, str], ...]]


def row(number: int) -> Row:
    """Record `number` as every program writes it: key, value and headers."""
    return f"key-{number}", str(number), (("number", str(number)),)


@pytest.mark.parametrize("client", CLIENTS)
def test_others_read_what_it_writes_in_every_codec(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path, client: str
) -> None:
    expected = [
        Record(value.encode(), key.encode(), tuple((name, text.encode()) for name, text in headers))
        for key, value, headers in map(row, range(_COUNT))
    ]
    for codec in CODECS[client]:
        topic = make_topic()
        arguments = ["produce", broker.bootstrap_servers, topic, str(_COUNT), codec]
        LanguageProgram(client, arguments, tmp_path / codec).finish()
        stored = Librdkafka(broker.bootstrap_servers).read(topic, _COUNT)
        assert [each.record for each in stored] == expected, codec


@pytest.mark.parametrize("client", CLIENTS)
def test_it_reads_what_others_write_in_every_codec(
    broker: Broker, make_topic: Callable[..., str], tmp_path: Path, client: str
) -> None:
    topic = make_topic(3)
    expected = {}
    for index, codec in enumerate(CODECS[client]):
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "compression.type": codec, "linger.ms": 50})
        for number in range(_COUNT):
            key, value, headers = row(number)
            producer.produce(topic, value, key, number % 3, headers=list(headers))
            expected[number % 3, index * _COUNT // 3 + number // 3] = row(number)
        assert producer.flush(TIMEOUT_S) == 0
    arguments = ["consume", broker.bootstrap_servers, topic, f"readers-of-{topic}"]
    with LanguageProgram(client, arguments, tmp_path / "reader") as reader:
        reader.until(lambda: len(reader.events("offset")) >= len(expected))
        reader.kill()
    found = {
        (event["partition"], event["offset"]): (event["key"], event["value"], tuple(event["headers"].items()))
        for event in reader.events("offset")
    }
    assert found == expected


@pytest.mark.parametrize("client", CLIENTS)
def test_a_group_reads_all_though_a_member_and_the_broker_are_killed(tmp_path: Path, client: str) -> None:
    with broker_with_topic(tmp_path) as broker, Feed(broker) as feed:
        arguments = ["consume", broker.bootstrap_servers, TOPIC, "readers"]
        first, second = (LanguageProgram(client, arguments, tmp_path / name) for name in ("first", "second"))

        def read(*members: LanguageProgram) -> set[tuple[int, int]]:
            return {(event["partition"], event["offset"]) for member in members for event in member.events("offset")}

        with first, second:
            first.until(lambda: bool(read(first)))
            second.until(lambda: bool(read(second)))
            first.kill()
            # The survivor is given what the other had, all of it.
            second.until(lambda: len({partition for partition, _ in read(second)}) == PARTITIONS)
            broker.kill()
            broker.start()
            count = feed.finish()
            second.until(lambda: len(read(first, second)) >= count)
            assert second.is_alive, second.tail()
    by_partition = [
        [offset for number, offset in read(first, second) if number == partition] for partition in range(PARTITIONS)
    ]
    assert all(sorted(offsets) == list(range(len(offsets))) for offsets in by_partition)


@pytest.fixture
def copying_broker(tmp_path: Path) -> Iterator[ChildBroker]:
    with ChildBroker(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        topics = [NewTopic(name, _COPY_PARTITIONS, 1) for name in ("source", "copy")]
        for created in admin.create_topics(topics).values():
            created.result(30)
        yield running


@pytest.mark.parametrize("client", TRANSACTIONAL)
def test_each_record_is_copied_once_and_in_order_though_the_copier_and_the_broker_are_killed(
    copying_broker: ChildBroker, tmp_path: Path, client: str
) -> None:
    broker = copying_broker
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
    written = 0
    found: list[list[int]] = [[] for _ in range(_COPY_PARTITIONS)]
    copier = LanguageProgram(client, ["copy", broker.bootstrap_servers, "source", "copy"], tmp_path / "copier")

    def write() -> None:
        nonlocal written
        for number in range(written, written + _AT_ONCE):
            producer.produce("source", str(number).encode(), partition=number % _COPY_PARTITIONS)
        written += _AT_ONCE
        assert producer.flush(TIMEOUT_S) == 0

    with copier, CommittedReader(broker.bootstrap_servers, "copy", _COPY_PARTITIONS) as reader:

        def copied() -> int:
            if not copier.is_alive:
                # A program that does not know the outcome of its transaction ends; its supervisor restarts it.
                copier.start()
            for record in reader.poll():
                found[record.partition].append(int(record.value))
            return sum(map(len, found))

        write()
        until(lambda: copied() == written, copier.tail)
        write()
        until(lambda: copied() > written - _AT_ONCE, copier.tail)
        copier.kill()
        write()
        until(lambda: copied() > written - _AT_ONCE // 2, copier.tail)
        broker.kill()
        broker.start()
        until(lambda: copied() >= written, copier.tail)
    assert found == [list(range(number, written, _COPY_PARTITIONS)) for number in range(_COPY_PARTITIONS)]
    assert copier.events("aborted")
    assert copier.events("committed")


@pytest.mark.parametrize("client", CLIENTS)
def test_it_administers_topics_and_groups(broker: Broker, tmp_path: Path, client: str) -> None:
    program = LanguageProgram(client, ["admin", broker.bootstrap_servers, f"administered-{client}"], tmp_path)
    program.finish()
    [told] = program.events("partitions")
    assert told["partitions"] == 3
    assert told["brokers"] == 1
    assert told["configs"]["retention.ms"] == "7200000"
    assert told["configs"]["cleanup.policy"] == "delete,compact"
    assert sum(told["end_offsets"]) == 30
    assert told["reassignments"] == 0
    assert told["group_offsets"] == [5, 6, 7]
    assert told["group_state"] == "Empty"
    assert "administered" in told["groups"]
    assert told["is_deleted"]
