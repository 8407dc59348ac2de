"""Runs an example of `examples/guarantees` to its end, through as many deaths as asked for."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from confluent_kafka import Producer
from tests.examples import dying

from catchment.testing.embedded import Broker

EXAMPLES = Path(__file__).parents[2] / "examples" / "guarantees"
TOPIC = "orders"
PARTITIONS = 2
RECORDS = 30
"""In each partition."""
DEADLINE_S = 450.0

Place = tuple[int, int]
"""A partition and an offset of the input."""
ALL: list[Place] = [(partition, offset) for partition in range(PARTITIONS) for offset in range(RECORDS)]


def fill(broker: Broker) -> None:
    broker.create_topic(TOPIC, PARTITIONS)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for partition, offset in ALL:
        producer.produce(TOPIC, f"{partition}-{offset}", partition=partition)
    assert producer.flush(DEADLINE_S) == 0


class Run:
    """One example with its arguments."""

    def __init__(self, broker: Broker, example: str, output: str, log: Path) -> None:
        self._path = EXAMPLES / example
        self._log = log
        self._arguments = ["--bootstrap-servers", broker.bootstrap_servers, "--topic", TOPIC, "--output", output]

    def die(self, moment: str, calls: int = 4) -> None:
        """Start it and let it come to its death, at the given call of what the moment names."""
        process = self._start([dying.__file__, str(self._path), moment, str(calls)])
        try:
            ended = process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            raise AssertionError(f"it did not come to `{moment}`:\n{self._log.read_text()[-2000:]}") from None
        assert ended == -signal.SIGKILL, f"it did not come to `{moment}`:\n{self._log.read_text()[-2000:]}"

    def finish(self, seen: Callable[[], Sequence[Place]]) -> list[Place]:
        """Start it and let it live until it has come to the end of every partition; all that came out, in order."""
        process = self._start([str(self._path)])
        ends = {(partition, RECORDS - 1) for partition in range(PARTITIONS)}
        deadline_s = time.monotonic() + DEADLINE_S
        try:
            while not ends <= set(seen()):
                assert process.poll() is None, self._log.read_text()[-2000:]
                assert time.monotonic() < deadline_s, f"it does not come to the end:\n{self._log.read_text()[-2000:]}"
                time.sleep(0.02)
        finally:
            process.kill()
            process.wait()
        return list(seen())

    def _start(self, command: list[str]) -> subprocess.Popen[bytes]:
        with self._log.open("ab") as log:
            return subprocess.Popen([sys.executable, *command, *self._arguments], stdout=log, stderr=log)


def places_of_values(values: Sequence[str]) -> list[Place]:
    """The places that values were sent to, which they hold themselves."""
    return [(int(partition), int(offset)) for partition, offset in (value.split("-") for value in values)]


def lost(seen: Sequence[Place]) -> list[Place]:
    return [place for place in ALL if place not in set(seen)]


def repeated(seen: Sequence[Place]) -> list[Place]:
    return [place for place in ALL if seen.count(place) > 1]


def is_in_order(seen: Sequence[Place]) -> bool:
    """Whether, within each partition, offsets rise."""
    return all(
        offsets == sorted(offsets)
        for offsets in ([offset for number, offset in seen if number == one] for one in range(PARTITIONS))
    )
