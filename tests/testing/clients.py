"""Write and read back a few values with an ordinary client."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from confluent_kafka import Consumer, Producer, TopicPartition

_SECONDS = 30.0


def write(bootstrap_servers: str, topic: str, values: Sequence[bytes], **options: object) -> list[Any]:
    """Write the values with an idempotent producer, and return the errors of those not delivered."""
    errors: list[Any] = []

    def delivered(error: Any, message: Any) -> None:
        if error is not None:
            errors.append(error)

    settings = {"bootstrap.servers": bootstrap_servers, "enable.idempotence": True, "log_level": 0, **options}
    producer = Producer(settings)
    for value in values:
        producer.produce(topic, value, partition=0, on_delivery=delivered)
    assert producer.flush(_SECONDS) == 0
    return errors


def read_all(bootstrap_servers: str, topic: str) -> list[bytes]:
    """All values in partition 0 of the topic."""
    consumer = Consumer(
        {"bootstrap.servers": bootstrap_servers, "group.id": "reader", "enable.auto.commit": False, "log_level": 0}
    )
    try:
        partition = TopicPartition(topic, 0, 0)
        start, end = consumer.get_watermark_offsets(partition, timeout=_SECONDS)
        partition.offset = start
        consumer.assign([partition])
        values: list[bytes] = []
        while len(values) < end - start:
            messages = consumer.consume(end - start - len(values), timeout=_SECONDS)
            assert messages, "the broker returns no more records"
            for message in messages:
                assert message.error() is None, message.error()
                value = message.value()
                assert value is not None
                values.append(value)
        return values
    finally:
        consumer.close()
