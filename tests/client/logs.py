"""Topics on a server of either kind, written and read by confluent-kafka, which is independent of our client."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from confluent_kafka import Consumer, KafkaError, Message, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from tests.client.settled import settle

from catchment.testing.embedded import Broker

_TIMEOUT_S = 150.0
_numbers = itertools.count(1)


class Logs(ABC):
    """A server, and topics with unique names."""

    def __init__(self, bootstrap_servers: str) -> None:
        self.bootstrap_servers = bootstrap_servers

    @abstractmethod
    def create(self, name: str, partitions: int, settings: Mapping[str, str]) -> None: ...

    def topic(self, partitions: int = 1, **settings: str) -> str:
        """Create a topic. Its settings have underscores for dots."""
        name = f"client-{next(_numbers)}"
        self.create(name, partitions, {key.replace("_", "."): value for key, value in settings.items()})
        return name

    def grow(self, topic: str, partitions: int) -> None:
        """Add partitions to a topic until it has `partitions`."""
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        admin.create_partitions([NewPartitions(topic, partitions)])[topic].result(_TIMEOUT_S)

    def fill(
        self, topic: str, values: Iterable[bytes], *, partition: int = 0, settings: Mapping[str, Any] | None = None
    ) -> None:
        """Write values and wait until they are acknowledged; `settings` are confluent-kafka's."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers, **(settings or {})})
        failures: list[KafkaError] = []

        def delivered(error: KafkaError | None, message: Message) -> None:
            if error is not None:
                failures.append(error)

        for number, value in enumerate(values):
            producer.produce(topic, value, key=b"%d" % number, partition=partition, on_delivery=delivered)
            producer.poll(0)
        assert producer.flush(_TIMEOUT_S) == 0
        assert failures == []

    def transaction(self, topic: str, values: Iterable[bytes], *, commit: bool, partition: int = 0) -> None:
        """Write values in a transaction, with a new producer."""
        producer = Producer(
            {"bootstrap.servers": self.bootstrap_servers, "transactional.id": f"filler-{next(_numbers)}"}
        )
        producer.init_transactions(_TIMEOUT_S)
        producer.begin_transaction()
        for value in values:
            producer.produce(topic, value, partition=partition)
        assert producer.flush(_TIMEOUT_S) == 0
        if commit:
            producer.commit_transaction(_TIMEOUT_S)
        else:
            producer.abort_transaction(_TIMEOUT_S)

    def messages(self, topic: str, partition: int = 0) -> Iterator[Message]:
        """The committed records of a partition, up to its end."""
        consumer = Consumer(
            {
                "bootstrap.servers": self.bootstrap_servers,
                "group.id": "reader",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 10,
            }
        )
        try:
            consumer.assign([TopicPartition(topic, partition, 0)])
            while True:
                message = consumer.poll(_TIMEOUT_S)
                assert message is not None, f"{topic}-{partition} has no end"
                error = message.error()
                if error is not None:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    return
                yield message
        finally:
            consumer.close()

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        return [message.value() for message in self.messages(topic, partition)]

    def settled_values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """The same once no transaction is open: Kafka responds to EndTxn before all partitions have their markers."""
        self.settle(topic, partition)
        return self.values(topic, partition)

    def settle(self, topic: str, partition: int = 0) -> None:
        settle(self.bootstrap_servers, topic, [partition])


class CatchmentLogs(Logs):
    def __init__(self, broker: Broker) -> None:
        super().__init__(broker.bootstrap_servers)
        self.broker = broker

    def create(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        self.broker.create_topic(name, partitions, settings=settings)


class KafkaLogs(Logs):
    def create(self, name: str, partitions: int, settings: Mapping[str, str]) -> None:
        admin = AdminClient({"bootstrap.servers": self.bootstrap_servers})
        admin.create_topics([NewTopic(name, partitions, 1, config=dict(settings))])[name].result(_TIMEOUT_S)
