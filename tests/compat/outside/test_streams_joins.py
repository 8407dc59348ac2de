"""Kafka Streams under exactly_once_v2 with joins and windows: exact results after kills and the loss of its state and broker."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from itertools import accumulate
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.child_broker import ChildBroker
from tests.compat.clients.committed_reader import CommittedReader
from tests.compat.program import APPLICATIONS, TIMEOUT_S, JavaProgram

_PARTITIONS = 2
_CUSTOMERS = 5
_AT_ONCE = 500
_EPOCH_MS = 1_700_000_000_000
_STEP_MS = 100
_WINDOW_MS = 10_000
_SOURCES = ("customers", "orders", "payments")
_RESULTS = ("named", "paid", "summed")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ChildBroker]:
    with ChildBroker(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        topics = [NewTopic(name, _PARTITIONS, 1) for name in (*_SOURCES, *_RESULTS)]
        for created in admin.create_topics(topics).values():
            created.result(30)
        yield running


class Shop:
    """Order i is of customer i modulo their number, at a time of its own, and is paid at once."""

    def __init__(self, broker: ChildBroker) -> None:
        self._producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})
        self.orders = 0
        for number in range(_CUSTOMERS):
            self._producer.produce("customers", f"name-{number}", f"customer-{number}", timestamp=_EPOCH_MS - 1)
        assert self._producer.flush(TIMEOUT_S) == 0

    def sell(self) -> None:
        for number in range(self.orders, self.orders + _AT_ONCE):
            for topic in ("orders", "payments"):
                key = f"customer-{number % _CUSTOMERS}"
                self._producer.produce(topic, str(number), key, timestamp=_EPOCH_MS + number * _STEP_MS)
        self.orders += _AT_ONCE
        assert self._producer.flush(TIMEOUT_S) == 0

    def by_customer(self) -> dict[int, range]:
        return {customer: range(customer, self.orders, _CUSTOMERS) for customer in range(_CUSTOMERS)}

    def named(self) -> dict[str, list[str]]:
        return {
            f"customer-{customer}": [f"name-{customer} {number}" for number in numbers]
            for customer, numbers in self.by_customer().items()
        }

    def paid(self) -> dict[str, list[str]]:
        return {str(number): [str(number)] for number in range(self.orders)}

    def summed(self) -> dict[str, list[str]]:
        windows: dict[str, list[int]] = {}
        for customer, numbers in self.by_customer().items():
            for number in numbers:
                start_ms = (_EPOCH_MS + number * _STEP_MS) // _WINDOW_MS * _WINDOW_MS
                windows.setdefault(f"customer-{customer}@{start_ms}", []).append(number)
        return {window: list(map(str, accumulate(numbers))) for window, numbers in windows.items()}


class Results:
    """What a READ_COMMITTED consumer has seen of a topic: the values of each key in their order."""

    def __init__(self, broker: ChildBroker, topic: str) -> None:
        self._reader = CommittedReader(broker.bootstrap_servers, topic, _PARTITIONS)
        self.seen: dict[str, list[str]] = {}

    def count(self) -> int:
        for record in self._reader.poll():
            assert record.key is not None
            self.seen.setdefault(record.key.decode(), []).append(record.value.decode())
        return sum(map(len, self.seen.values()))

    def close(self) -> None:
        self._reader.__exit__(None, None, None)


def test_joins_and_windows_are_exact_though_the_state_is_lost_and_the_broker_is_killed(
    broker: ChildBroker, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    arguments = [broker.bootstrap_servers, str(state)]
    source = str(APPLICATIONS / "Sales.java")
    application = JavaProgram(source, arguments, tmp_path / "application", needs_applications=True)
    shop = Shop(broker)
    results = {name: Results(broker, name) for name in _RESULTS}

    def have(count: int) -> bool:
        return all(result.count() >= count for result in results.values())

    with application:
        shop.sell()
        application.until(lambda: have(shop.orders))
        shop.sell()
        application.until(lambda: have(shop.orders - _AT_ONCE + 1))
        application.kill()
        # All its state is in the changelog topics.
        shutil.rmtree(state)
        shop.sell()
        application.start()
        application.until(lambda: have(shop.orders - _AT_ONCE + 1))
        broker.kill()
        broker.start()
        application.until(lambda: have(shop.orders))
        assert application.stop() in (0, 143), application.tail()
    have(shop.orders)
    for result in results.values():
        result.close()
    assert results["named"].seen == shop.named()
    assert results["summed"].seen == shop.summed()
    assert results["paid"].seen == shop.paid()
