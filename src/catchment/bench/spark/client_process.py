"""One client that reads one topic: `python -m catchment.bench.spark.client_process '{"client": …}'` prints records a second.

It reads the topic twice and times the second pass, so that imports and first connections are not counted.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_POLL_SECONDS = 30


@dataclass(frozen=True, slots=True)
class Reading:
    """What to read with which client."""

    client: str
    bootstrap_servers: str
    topic: str
    partitions: int
    records: int


def with_read_arrow(reading: Reading) -> int:
    from catchment.client.arrow_api import read_arrow

    table = read_arrow(reading.topic, reading.bootstrap_servers)
    return int(table.num_rows)


def with_confluent_kafka(reading: Reading) -> int:
    from confluent_kafka import Consumer, TopicPartition

    settings = {
        "bootstrap.servers": reading.bootstrap_servers,
        "group.id": "bench",
        "enable.auto.commit": False,
        # By default it stops fetching for a second whenever 100,000 records wait, which small records do at once.
        "queued.min.messages": 1_000_000,
        "fetch.queue.backoff.ms": 10,
    }
    consumer = Consumer(settings)
    consumer.assign([TopicPartition(reading.topic, number, 0) for number in range(reading.partitions)])
    read = 0
    while read < reading.records:
        messages = consumer.consume(10_000, _POLL_SECONDS)
        if not messages:
            break
        for message in messages:
            if message.key() is not None and message.value() is not None:
                read += 1
    consumer.close()
    return read


def _whole(polled: Mapping[Any, Sequence[Any]]) -> int:
    """How many records have a key and a value: each of them is read, as a program would."""
    return sum(
        message.key is not None and message.value is not None for messages in polled.values() for message in messages
    )


def with_kafka_python(reading: Reading) -> int:
    from kafka import KafkaConsumer, TopicPartition

    consumer = KafkaConsumer(bootstrap_servers=reading.bootstrap_servers, group_id=None, enable_auto_commit=False)
    places = [TopicPartition(reading.topic, number) for number in range(reading.partitions)]
    consumer.assign(places)
    consumer.seek_to_beginning(*places)
    read = 0
    while read < reading.records:
        polled = consumer.poll(_POLL_SECONDS * 1000, max_records=10_000)
        if not polled:
            break
        read += _whole(polled)
    consumer.close()
    return read


def with_aiokafka(reading: Reading) -> int:
    return asyncio.run(_with_aiokafka(reading))


async def _with_aiokafka(reading: Reading) -> int:
    from aiokafka import AIOKafkaConsumer, TopicPartition

    consumer = AIOKafkaConsumer(bootstrap_servers=reading.bootstrap_servers, group_id=None, enable_auto_commit=False)
    await consumer.start()
    read = 0
    try:
        places = [TopicPartition(reading.topic, number) for number in range(reading.partitions)]
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        while read < reading.records:
            polled = await consumer.getmany(timeout_ms=_POLL_SECONDS * 1000, max_records=10_000)
            if not polled:
                break
            read += _whole(polled)
    finally:
        await consumer.stop()
    return read


CLIENTS: Mapping[str, Callable[[Reading], int]] = {
    "read_arrow": with_read_arrow,
    "confluent-kafka": with_confluent_kafka,
    "kafka-python": with_kafka_python,
    "aiokafka": with_aiokafka,
}


def main() -> None:
    """Read as the argument describes."""
    reading = Reading(**json.loads(sys.argv[1]))
    rate = 0.0
    for _ in range(2):
        began = time.perf_counter()
        read = CLIENTS[reading.client](reading)
        rate = read / (time.perf_counter() - began)
        if read != reading.records:
            raise RuntimeError(f"{reading.client} read {read} records of {reading.records}")
    sys.stdout.write(f"{rate}\n")


if __name__ == "__main__":
    main()
