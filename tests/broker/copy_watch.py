"""A copy job from outside: the transactions in its journal, and a consumer that follows its output."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, TopicPartition
from tests.checkers.history import Outcome, Poll, Send, Transaction


def transactions_of(notes_path: Path) -> list[Transaction]:
    """The job's transactions. One whose commit was requested and not confirmed may be committed or not."""
    steps: dict[str, dict[str, Any]] = {}
    for line in notes_path.read_text(encoding="utf-8").splitlines():
        note = json.loads(line)
        steps.setdefault(note["attempt"], {})[note["step"]] = note
    found: list[Transaction] = []
    for noted in steps.values():
        begin, commit, committed = noted["begin"], noted.get("commit"), noted.get("committed")
        places = {} if commit is None else commit["places"]
        # A job that dies before its commit request leaves a transaction that can no longer be committed.
        outcome = Outcome.ABORTED if commit is None else Outcome.UNKNOWN if committed is None else Outcome.COMMITTED
        found.append(
            Transaction(
                begin["life"],
                tuple(Send(partition, value, places.get(value)) for partition, value in begin["sends"]),
                outcome,
                begin["moment"],
                (committed or commit or begin)["moment"],
                None if commit is None else commit["moment"],
            )
        )
    return found


class Follower:
    """Reads committed data of all partitions, from the first record on, and notes every poll."""

    def __init__(self, bootstrap_servers: str, topic: str, partitions: int, name: str) -> None:
        self.polls: list[Transaction] = []
        self._name = name
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": name,
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "isolation.level": "read_committed",
                "reconnect.backoff.ms": 20,
                "reconnect.backoff.max.ms": 100,
                "log_level": 0,
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    @property
    def count(self) -> int:
        return sum(len(event.records) for poll in self.polls for event in poll.events if isinstance(event, Poll))

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join()
        self._consumer.close()

    def _follow(self) -> None:
        while not self._is_over.is_set():
            begun = time.monotonic_ns()
            found: dict[int, list[tuple[int, str]]] = {}
            for message in self._consumer.consume(500, timeout=0.2):
                partition, offset, value = message.partition(), message.offset(), message.value()
                if message.error() is None and partition is not None and offset is not None and value is not None:
                    found.setdefault(partition, []).append((offset, value.decode()))
            if found:
                events = tuple(Poll(partition, tuple(records)) for partition, records in found.items())
                self.polls.append(Transaction(self._name, events, Outcome.COMMITTED, begun, time.monotonic_ns()))
