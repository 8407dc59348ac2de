"""Reads all of a topic as a READ_COMMITTED consumer does, in no group, from the beginning."""

from __future__ import annotations

from types import TracebackType
from typing import NamedTuple

from confluent_kafka import Consumer, TopicPartition

_AT_ONCE = 1000
_PAUSE_S = 0.1


class CommittedRecord(NamedTuple):
    partition: int
    key: bytes | None
    value: bytes


class CommittedReader:
    def __init__(self, bootstrap_servers: str, topic: str, partitions: int = 1) -> None:
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap_servers,
                "group.id": "never-committed",
                "enable.auto.commit": False,
                "isolation.level": "read_committed",
            }
        )
        self._consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])

    def __enter__(self) -> CommittedReader:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._consumer.close()

    def poll(self) -> list[CommittedRecord]:
        """The records since the last call; waits a moment for the first."""
        found = []
        for message in self._consumer.consume(_AT_ONCE, _PAUSE_S):
            assert message.error() is None, message.error()
            found.append(CommittedRecord(message.partition() or 0, message.key(), message.value() or b""))
        return found
