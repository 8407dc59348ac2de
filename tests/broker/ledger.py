"""An independent record of what a broker acknowledged, and a consumer that checks the broker against it."""

from __future__ import annotations

import threading
import time
import zlib
from collections.abc import Callable, Iterable
from random import Random
from typing import Any

from confluent_kafka import Consumer, KafkaError, Producer, TopicPartition
from tests.waiting import wait_until

_DRAIN_SECONDS = 120.0
_READ_SECONDS = 60.0


def content(number: int) -> bytes:
    """The content of record `number`, a function of its number. Sizes vary so that batches do."""
    size = 1 << (zlib.crc32(number.to_bytes(8, "big")) % 12)
    return b"%d:" % number + Random(number).randbytes(size)


class Ledger:
    """Writes numbered records, optionally with a pause after each, and keeps the offset of each acknowledged one."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, *, pause_s: float = 0.0) -> None:
        self.acknowledged: dict[int, tuple[int, int]] = {}
        self.failures: list[str] = []
        self.slowest_s = 0.0
        """The longest that an acknowledgement has taken."""
        self._topic = topic
        self._partitions = partitions
        self._next_number = 0
        self._pause_s = pause_s
        self._is_over = threading.Event()
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "enable.idempotence": True,
                "acks": "all",
                "linger.ms": 2,
                "compression.type": "lz4",
                "message.timeout.ms": 300_000,
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "retry.backoff.ms": 20,
                "retry.backoff.max.ms": 100,
                "queue.buffering.max.messages": 2000,
                "log_level": 0,
            }
        )
        self._thread = threading.Thread(target=self._write, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def wait_for_more(self, timeout_s: float) -> None:
        """Wait until something is acknowledged that was not before."""
        before = len(self.acknowledged)
        wait_until(
            lambda: len(self.acknowledged) > before,
            lambda: f"nothing is acknowledged any more; failures: {self.failures[:3]}",
            timeout_s,
        )

    def finish(self) -> None:
        """Stop writing, and wait until everything is acknowledged or has failed."""
        self._is_over.set()
        self._thread.join(_DRAIN_SECONDS)
        assert self._producer.flush(_DRAIN_SECONDS) == 0, "records were neither acknowledged nor refused"

    def _write(self) -> None:
        while not self._is_over.wait(self._pause_s):
            number = self._next_number
            try:
                self._producer.produce(
                    self._topic, content(number), partition=number % self._partitions, on_delivery=self._note(number)
                )
                self._next_number += 1
                self._producer.poll(0)
            except BufferError:
                self._producer.poll(0.05)

    def _note(self, number: int) -> Callable[[Any, Any], None]:
        start_s = time.monotonic()

        def delivered(error: Any, message: Any) -> None:
            self.slowest_s = max(self.slowest_s, time.monotonic() - start_s)
            if error is None:
                self.acknowledged[number] = (message.partition(), message.offset())
            else:
                self.failures.append(f"record {number}: {error}")

        return delivered


class Auditor:
    """Reads a topic in portions, and finds records that are altered, repeated or gone."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int) -> None:
        self.places: dict[int, tuple[int, int]] = {}
        self._bootstrap_servers = bootstrap_servers
        self._topic = topic
        self._next_offsets = dict.fromkeys(range(partitions), 0)

    def read_on(self) -> None:
        """Read what is new since the last time, with a new client.

        Each partition is read to its end once: all that was acknowledged before the call lies below it. A writer may go on
        meanwhile, so on a busy machine there may be no moment at which every partition is at its end.
        """
        consumer = Consumer(
            {
                "bootstrap.servers": self._bootstrap_servers,
                "group.id": "auditor",
                "enable.auto.commit": False,
                "enable.partition.eof": True,
                "auto.offset.reset": "error",
                "log_level": 0,
            }
        )
        consumer.assign([TopicPartition(self._topic, number, offset) for number, offset in self._next_offsets.items()])
        at_end: dict[int, None] = {}
        deadline_s = time.monotonic() + _READ_SECONDS
        while len(at_end) < len(self._next_offsets):
            assert time.monotonic() < deadline_s, "the broker does not serve the topic to its end"
            for message in consumer.consume(1000, timeout=0.1):
                partition, error = message.partition(), message.error()
                assert partition is not None
                if error is None:
                    self._note(partition, message)
                else:
                    assert error.code() == KafkaError._PARTITION_EOF, error
                    at_end[partition] = None
        consumer.close()

    def _note(self, partition: int, message: Any) -> None:
        offset, value = message.offset(), message.value()
        assert offset == self._next_offsets[partition], "offsets have a gap"
        self._next_offsets[partition] = offset + 1
        number = int(value[: value.index(b":")])
        assert value == content(number), f"record {number} was altered"
        assert number not in self.places, f"record {number} is there twice"
        self.places[number] = (partition, offset)


def assert_none_lost(acknowledged: Iterable[tuple[int, tuple[int, int]]], places: dict[int, tuple[int, int]]) -> None:
    lost = [(number, place) for number, place in acknowledged if places.get(number) != place]
    assert not lost, f"{len(lost)} acknowledged records are lost or moved, the first: {lost[:5]}"
