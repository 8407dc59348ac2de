"""A broker with one topic that a group shares, and a producer that writes to it continuously."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.child_broker import ChildBroker
from tests.compat.program import TIMEOUT_S

TOPIC = "shared"
PARTITIONS = 6
_SETTINGS = {
    "group.initial.rebalance.delay.ms": "100",
    # The broker sets the heartbeat interval and session timeout of members of the new protocol.
    "group.consumer.min.session.timeout.ms": "6000",
    "group.consumer.session.timeout.ms": "10000",
    "group.consumer.min.heartbeat.interval.ms": "300",
    "group.consumer.heartbeat.interval.ms": "300",
}


@contextmanager
def broker_with_topic(directory: Path) -> Iterator[ChildBroker]:
    with ChildBroker(directory, _SETTINGS) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        yield running


class Feed:
    """Writes numbers on a thread of its own until `finish`."""

    def __init__(self, broker: ChildBroker) -> None:
        self._producer = Producer(
            {"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "enable.idempotence": True}
        )
        self._is_finished = threading.Event()
        self.count = 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while not self._is_finished.wait(0.005):
            self._producer.produce(TOPIC, str(self.count).encode(), partition=self.count % PARTITIONS)
            self._producer.poll(0)
            self.count += 1

    def __enter__(self) -> Feed:
        return self

    def __exit__(self, *error: object) -> None:
        self._is_finished.set()
        self._thread.join()

    def finish(self) -> int:
        """How many were written and acknowledged."""
        self.__exit__()
        assert self._producer.flush(TIMEOUT_S) == 0
        return self.count
