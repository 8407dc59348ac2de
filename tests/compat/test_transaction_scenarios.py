"""Transactions with real clients: what is committed is read, what is not never is, and no zombie writes."""

from __future__ import annotations

import itertools
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from confluent_kafka import Consumer, IsolationLevel, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, OffsetSpec
from tests.compat.clients.client import TIMEOUT_S, forget_refused_sockets
from tests.compat.clients.group_consumers import GROUP_CONSUMERS, GroupConsumer
from tests.compat.clients.transactional_producers import TRANSACTIONAL_PRODUCERS, Refused, TransactionalProducer
from tests.compat.java_tool import java_tool
from tests.compat.program import until

from catchment.testing.embedded import Broker

_numbers = itertools.count(1)
Make = Callable[..., TransactionalProducer]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    settings = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": 100}
    with Broker(tmp_path_factory.mktemp("transactions"), settings=settings) as running:
        yield running


@pytest.fixture
def topic(broker: Broker) -> str:
    name = f"written-{next(_numbers)}"
    broker.create_topic(name)
    return name


@pytest.fixture(params=list(TRANSACTIONAL_PRODUCERS))
def client(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def producer(broker: Broker, topic: str, client: str, caplog: pytest.LogCaptureFixture) -> Iterator[Make]:
    """Makes producers with a transactional id that belongs to the test."""
    with ExitStack() as closing:

        def make(**options: Any) -> TransactionalProducer:
            producer_class: Any = TRANSACTIONAL_PRODUCERS[client]
            made: TransactionalProducer = producer_class(broker.bootstrap_servers, f"writer-of-{topic}", **options)
            closing.callback(made.close)
            return made

        yield make
    forget_refused_sockets(caplog)


@pytest.fixture
def reader(broker: Broker, topic: str, client: str) -> Iterator[Callable[..., GroupConsumer]]:
    with ExitStack() as closing:

        def make(isolation: str, from_topic: str = topic) -> GroupConsumer:
            consumer_class: Any = GROUP_CONSUMERS[client]
            group = f"{isolation}-of-{from_topic}"
            made: GroupConsumer = consumer_class(broker.bootstrap_servers, group, from_topic, isolation_level=isolation)
            closing.callback(made.close)
            return made

        yield make


def read(consumer: GroupConsumer, last: bytes) -> list[bytes]:
    """All values up to one that must come."""
    found: list[bytes] = []
    deadline_s = time.monotonic() + TIMEOUT_S
    while last not in found:
        assert time.monotonic() < deadline_s, found
        found += consumer.poll()
    return found


def stable_offset(broker: Broker, topic: str) -> int:
    """Where the first open transaction begins, or the end of the log."""
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    asked = TopicPartition(topic, 0)
    answers = admin.list_offsets({asked: OffsetSpec.latest()}, isolation_level=IsolationLevel.READ_COMMITTED)
    offset: int = answers[asked].result(30).offset
    return offset


def write_plainly(broker: Broker, topic: str, value: bytes) -> None:
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(topic, value, partition=0)
    assert producer.flush(TIMEOUT_S) == 0


def test_read_committed_consumers_see_only_what_was_committed(
    broker: Broker, topic: str, producer: Make, reader: Callable[..., GroupConsumer]
) -> None:
    writer = producer()
    for number in range(10):
        writer.begin()
        writer.send(topic, [b"%d" % number, b"%d again" % number])
        if number % 3 == 1:
            writer.abort()
        else:
            writer.commit()
    write_plainly(broker, topic, b"end")
    values = {number: [b"%d" % number, b"%d again" % number] for number in range(10)}
    committed = [value for number in range(10) if number % 3 != 1 for value in values[number]]
    assert read(reader("read_committed"), b"end") == [*committed, b"end"]
    assert read(reader("read_uncommitted"), b"end") == [*itertools.chain(*values.values()), b"end"]


def test_an_open_transaction_holds_back_read_committed_consumers(
    broker: Broker, topic: str, producer: Make, reader: Callable[..., GroupConsumer]
) -> None:
    writer = producer()
    write_plainly(broker, topic, b"before")
    writer.begin()
    writer.send(topic, [b"open"])
    write_plainly(broker, topic, b"after")
    assert read(reader("read_uncommitted"), b"after") == [b"before", b"open", b"after"]
    assert stable_offset(broker, topic) == 1
    consumer = reader("read_committed")
    assert read(consumer, b"before") == [b"before"]
    writer.commit()
    assert read(consumer, b"after") == [b"open", b"after"]


def test_a_second_producer_with_the_same_id_fences_the_first(
    broker: Broker, topic: str, producer: Make, reader: Callable[..., GroupConsumer]
) -> None:
    zombie = producer()
    zombie.begin()
    zombie.send(topic, [b"of the zombie"])
    successor = producer()
    with pytest.raises(Refused):
        zombie.commit()
    successor.begin()
    successor.send(topic, [b"of the successor"])
    successor.commit()
    assert read(reader("read_committed"), b"of the successor") == [b"of the successor"]


def test_a_transaction_that_takes_too_long_is_aborted(
    broker: Broker, topic: str, producer: Make, reader: Callable[..., GroupConsumer]
) -> None:
    slow = producer(timeout_ms=1000)
    slow.begin()
    slow.send(topic, [b"too late"])
    assert stable_offset(broker, topic) == 0
    # The record, and the marker that ends it.
    until(lambda: stable_offset(broker, topic) == 2, lambda: "the transaction was not aborted", pause_s=0.5)
    with pytest.raises(Refused):
        slow.commit()
    write_plainly(broker, topic, b"end")
    assert read(reader("read_committed"), b"end") == [b"end"]


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_a_transaction_continues_after_the_broker_was_killed(
    broker: Broker, topic: str, producer: Make, reader: Callable[..., GroupConsumer]
) -> None:
    writer = producer()
    writer.begin()
    writer.send(topic, [b"before"])
    broker.kill()
    broker.start()
    writer.send(topic, [b"after"])
    writer.commit()
    assert read(reader("read_committed"), b"after") == [b"before", b"after"]


def test_offsets_are_committed_with_the_records_or_not_at_all(
    broker: Broker, topic: str, producer: Make, reader: Callable[..., GroupConsumer]
) -> None:
    source = f"{topic}-source"
    broker.create_topic(source)
    for number in range(5):
        write_plainly(broker, source, b"%d" % number)
    consumer, writer = reader("read_committed", source), producer()
    values = read(consumer, b"4")

    def committed() -> int:
        group = f"read_committed-of-{source}"
        client = Consumer({"bootstrap.servers": broker.bootstrap_servers, "group.id": group})
        (found,) = client.committed([TopicPartition(source, 0)], TIMEOUT_S)
        client.close()
        offset: int = found.offset
        return offset

    no_offset = committed()
    assert no_offset < 0
    for end, expected in ((writer.abort, no_offset), (writer.commit, 5)):
        writer.begin()
        writer.send(topic, [value + b" copied" for value in values])
        writer.send_offsets(source, {0: 5}, consumer)
        end()
        assert committed() == expected
    assert read(reader("read_committed"), b"4 copied") == [b"%d copied" % number for number in range(5)]


def test_kafkas_own_tool_finds_describes_and_ends_transactions(broker: Broker, topic: str) -> None:
    writer = TRANSACTIONAL_PRODUCERS["confluent-kafka"]
    identity = f"writer-of-{topic}"

    def tool(*arguments: str) -> str:
        return java_tool("TransactionsCommand", "--bootstrap-server", broker.bootstrap_servers, *arguments).decode()

    def open_transaction() -> TransactionalProducer:
        make: Any = writer
        made: TransactionalProducer = make(broker.bootstrap_servers, identity)
        made.begin()
        made.send(topic, [b"value"])
        return made

    place = ("--topic", topic, "--partition", "0")
    first = open_transaction()
    listed = re.search(rf"{identity}\s+1\s+(\d+)\s+Ongoing", tool("list"))
    assert listed is not None
    producer_id = listed[1]
    described = tool("describe", "--transactional-id", identity)
    assert re.search(rf"{identity}\s+{producer_id}\s+\d+\s+Ongoing\s+60000\s+.*{topic}-0", described)
    assert re.search(rf"{producer_id}\s+0\s+-1\s+0\s+\d+\s+0\s", tool("describe-producers", *place))
    assert producer_id not in tool("find-hanging", "--broker-id", "1", "--max-transaction-timeout", "0")
    tool("abort", *place, "--start-offset", "0")
    assert stable_offset(broker, topic) == 2
    first.close()
    second = open_transaction()
    tool("forceTerminateTransaction", "--transactionalId", identity)
    # The coordinator did not have the abort, and ended the first transaction once more for the second producer.
    assert stable_offset(broker, topic) == 5
    with pytest.raises(Refused):
        second.commit()
    second.close()
