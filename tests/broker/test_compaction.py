"""A compacted topic as an ordinary client sees it, in memory and on the disk of this machine."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from tests.waiting import wait_until

import catchment

_SECONDS = 30.0
_KEYS = 5
_COUNT = 200


def write(broker: catchment.Broker, first: int) -> None:
    """Records of a few keys, each a second later than the one before it, so that segments end often."""
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "linger.ms": 0, "enable.idempotence": True})
    start_ms = time.time_ns() // 1_000_000 - 1_000_000
    for number in range(first, first + _COUNT):
        producer.produce(
            "table", b"%d" % number, key=b"%d" % (number % _KEYS), partition=0, timestamp=start_ms + 1000 * number
        )
        producer.flush(_SECONDS)


def read(broker: catchment.Broker) -> list[tuple[int, bytes | None, bytes | None]]:
    """(offset, key, value) of everything that is left."""
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "group.id": "reader",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([TopicPartition("table", 0, 0)])
        found: list[tuple[int, bytes | None, bytes | None]] = []
        while True:
            message = consumer.poll(_SECONDS)
            assert message is not None
            if message.error() is not None:
                return found
            offset = message.offset()
            assert offset is not None
            found.append((offset, message.key(), message.value()))
    finally:
        consumer.close()


@pytest.mark.parametrize("is_in_memory", [True, False])
def test_a_reader_finds_the_last_value_of_each_key_at_its_offset(tmp_path: Path, is_in_memory: bool) -> None:
    directory = None if is_in_memory else tmp_path / "data"
    with catchment.Broker(directory, settings={"log.cleaner.backoff.ms": 50}) as broker:
        broker.create_topic("table", settings={"cleanup.policy": "compact", "segment.ms": 10_000})
        for end in (_COUNT, 2 * _COUNT):
            write(broker, end - _COUNT)
            # The active segment and the one that may be about to be cleaned hold some more.
            wait_until(lambda: len(read(broker)) <= 10 * _KEYS, "nothing is compacted", _SECONDS)
            found = read(broker)
            assert all(value == b"%d" % offset for offset, _, value in found)
            last = {key: value for _, key, value in found}
            assert last == {b"%d" % (number % _KEYS): b"%d" % number for number in range(end - _KEYS, end)}
            broker.restart()
            assert {key: value for _, key, value in read(broker)} == last
