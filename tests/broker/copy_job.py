"""Copies a topic to another, each record and the offset after it in one transaction, and writes a journal.

The journal has a line of JSON for each step, written before the next step begins, so that the journal of a killed job shows how far
it got. Each copy has a unique value: `partition:offset:attempt` of its source.
"""

from __future__ import annotations

import json
import sys
import time
from functools import partial
from itertools import count
from typing import Any, TextIO

from confluent_kafka import Consumer, Producer, TopicPartition

GROUP = "copy"
_RECORDS_A_TRANSACTION = 20
_FAST_RETRIES = {
    # librdkafka 2.16 forgets its brokers when all of them are down, and a request to a coordinator that it sent for before
    # then waits for one of those until its time-out.
    "metadata.recovery.strategy": "none",
    "reconnect.backoff.ms": 20,
    "reconnect.backoff.max.ms": 100,
    "retry.backoff.ms": 20,
    "retry.backoff.max.ms": 100,
    "log_level": 0,
}
_TIMEOUT_S = 300.0


class CopyJob:
    def __init__(self, bootstrap_servers: str, life: str, notes: TextIO) -> None:
        self._life = life
        self._notes = notes
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": GROUP,
                # A static member id lets a restarted job get its partitions back at once.
                "group.instance.id": GROUP,
                "enable.auto.commit": False,
                "auto.offset.reset": "earliest",
                "isolation.level": "read_committed",
                "session.timeout.ms": 6000,
                **_FAST_RETRIES,
            }
        )
        self._producer = Producer(
            {
                "bootstrap.servers": bootstrap_servers,
                "transactional.id": "copy",
                "transaction.timeout.ms": 10_000,
                "linger.ms": 1,
                **_FAST_RETRIES,
            }
        )

    def run(self, source: str, target: str) -> None:
        self._producer.init_transactions(_TIMEOUT_S)
        self._consumer.subscribe([source])
        for attempt in count():
            messages = self._consumer.consume(_RECORDS_A_TRANSACTION, timeout=0.5)
            good = [message for message in messages if message.error() is None]
            if good:
                self._copy(good, target, f"{self._life}.{attempt}")

    def _copy(self, messages: list[Any], target: str, attempt: str) -> None:
        values = [f"{message.partition()}:{message.offset()}:{attempt}" for message in messages]
        sends = [(message.partition(), value) for message, value in zip(messages, values, strict=True)]
        self._note("begin", attempt, sends=sends)
        places: dict[str, int] = {}
        self._producer.begin_transaction()
        for partition, value in sends:
            self._producer.produce(target, value, partition=partition, on_delivery=partial(_note_place, places, value))
        positions = {message.partition(): message.offset() + 1 for message in messages}
        self._producer.send_offsets_to_transaction(
            [TopicPartition(str(messages[0].topic()), number, offset) for number, offset in positions.items()],
            self._consumer.consumer_group_metadata(),
            _TIMEOUT_S,
        )
        self._producer.flush(_TIMEOUT_S)
        self._note("commit", attempt, places=places)
        self._producer.commit_transaction(_TIMEOUT_S)
        self._note("committed", attempt)

    def _note(self, step: str, attempt: str, **more: Any) -> None:
        line = {"step": step, "attempt": attempt, "life": self._life, "moment": time.monotonic_ns(), **more}
        self._notes.write(json.dumps(line) + "\n")
        self._notes.flush()


def _note_place(places: dict[str, int], value: str, error: Any, message: Any) -> None:
    if error is None:
        places[value] = message.offset()


def main() -> None:
    bootstrap_servers, source, target, life, notes_path = sys.argv[1:]
    with open(notes_path, "a", encoding="utf-8") as notes:
        CopyJob(bootstrap_servers, life, notes).run(source, target)


if __name__ == "__main__":
    main()
