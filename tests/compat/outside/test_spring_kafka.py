"""A Spring Boot application with spring-kafka: listeners in transactions, in batches, with retries and dead letters, killed on the way."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.child_broker import ChildBroker
from tests.compat.clients.committed_reader import CommittedReader
from tests.compat.outside.toolchains import JavaApplication
from tests.compat.program import APPLICATIONS, TIMEOUT_S

from catchment.spark.launch.connector_jars import Artifact

# The first to run fetches the jars.
pytestmark = pytest.mark.timeout(1500)
_SPRING = (Artifact("org.springframework.boot", "spring-boot-starter-kafka", "4.1.1"),)
_PARTITIONS = 2
_AT_ONCE = 200


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ChildBroker]:
    with ChildBroker(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        topics = [NewTopic(name, _PARTITIONS, 1) for name in ("orders", "readings", "payments")]
        for created in admin.create_topics(topics).values():
            created.result(30)
        yield running


class Source:
    """Numbers, alternating between the partitions; of the orders, a few cannot be read."""

    def __init__(self, broker: ChildBroker) -> None:
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        self._count = 0
        self.orders: list[list[str]] = [[] for _ in range(_PARTITIONS)]
        self.poison: list[list[str]] = [[] for _ in range(_PARTITIONS)]
        self.readings: list[list[str]] = [[] for _ in range(_PARTITIONS)]

    def write(self) -> None:
        for number in range(self._count, self._count + _AT_ONCE):
            partition = number % _PARTITIONS
            order = f"poison-{number}" if number % 67 == 13 else str(number)
            (self.poison if order.startswith("poison") else self.orders)[partition].append(order)
            self.readings[partition].append(str(number))
            self._producer.produce("orders", order.encode(), partition=partition)
            self._producer.produce("readings", str(number).encode(), partition=partition)
        self._count += _AT_ONCE
        assert self._producer.flush(TIMEOUT_S) == 0

    def pay(self, *payments: str) -> None:
        for payment in payments:
            self._producer.produce("payments", payment.encode())
        assert self._producer.flush(TIMEOUT_S) == 0


class Copied:
    """What a READ_COMMITTED consumer finds in a topic, by partition and in order."""

    def __init__(self, broker: ChildBroker, topic: str) -> None:
        self._reader = CommittedReader(broker.bootstrap_servers, topic, _PARTITIONS)
        self.found: list[list[str]] = [[] for _ in range(_PARTITIONS)]

    def __enter__(self) -> Copied:
        return self

    def __exit__(self, *error: object) -> None:
        self._reader.__exit__(None, None, None)

    def count(self) -> int:
        for record in self._reader.poll():
            self.found[record.partition].append(record.value.decode())
        return sum(map(len, self.found))


def size(lists: list[list[str]]) -> int:
    return sum(map(len, lists))


def test_listeners_take_each_record_once_though_they_fail_and_the_application_and_the_broker_are_killed(
    broker: ChildBroker, tmp_path: Path
) -> None:
    source = Source(broker)
    shop = JavaApplication(
        APPLICATIONS / "spring" / "Shop.java", "shop.Shop", _SPRING, [broker.bootstrap_servers], tmp_path / "shop"
    )
    with shop:
        # The topics that it writes to are of its own making.
        shop.until(lambda: "started" in shop.lines())
        with (
            Copied(broker, "copied") as orders,
            Copied(broker, "copied-readings") as readings,
            Copied(broker, "orders-dlt") as dead,
        ):

            def is_all_copied() -> bool:
                counts = orders.count(), readings.count(), dead.count()
                return counts >= (size(source.orders), size(source.readings), size(source.poison))

            source.write()
            shop.until(is_all_copied)
            source.write()
            shop.until(lambda: orders.count() > size(source.orders) - _AT_ONCE * 3 // 4)
            shop.kill()
            shop.start()
            shop.until(lambda: orders.count() > size(source.orders) - _AT_ONCE // 2)
            broker.kill()
            broker.start()
            source.write()
            shop.until(is_all_copied)
            assert shop.stop() in (0, 143), shop.tail()
            is_all_copied()
    assert orders.found == source.orders
    assert readings.found == source.readings
    assert dead.found == source.poison
    assert {"failed orders", "failed readings"} <= set(shop.lines())


def test_what_fails_is_tried_again_through_topics_and_given_up_in_the_last(broker: ChildBroker, tmp_path: Path) -> None:
    source = Source(broker)
    source.pay("good-1", "late-1", "bad-1", "good-2")
    shop = JavaApplication(
        APPLICATIONS / "spring" / "Shop.java", "shop.Shop", _SPRING, [broker.bootstrap_servers], tmp_path / "shop"
    )
    expected = {
        "paid good-1 at attempt 1",
        "paid good-2 at attempt 1",
        "paid late-1 at attempt 3",
        "gave up bad-1 in payments-dlt",
    }
    with shop:
        shop.until(lambda: expected <= set(shop.lines()))
        assert shop.stop() in (0, 143), shop.tail()
    told = [line for line in shop.lines() if line.startswith(("paid", "gave up"))]
    assert sorted(told) == sorted(expected)
    topics = set(AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=30).topics)
    assert {"payments-retry", "payments-dlt"} <= topics
