"""Java consumers change from the classic protocol to the one of KIP-848 and back, one at a time, and miss nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from tests.compat.program import JavaProgram, until

from catchment.testing.embedded import Broker

_TOPIC = "moving"
_GROUP = "movers"
_PARTITIONS = 4
_COUNT = 40
_TIMEOUT_S = 150.0


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    settings = {
        "group.initial.rebalance.delay.ms": 0,
        "group.consumer.min.heartbeat.interval.ms": 100,
        "group.consumer.heartbeat.interval.ms": 300,
    }
    with Broker(tmp_path / "broker", settings=settings) as running:
        running.create_topic(_TOPIC, _PARTITIONS)
        yield running


class JavaMember:
    """A verifiable consumer: it prints every record that it reads, and commits."""

    def __init__(self, broker: Broker, directory: Path, protocol: str, strategy: str) -> None:
        options = ["--bootstrap-server", broker.bootstrap_servers, "--topic", _TOPIC, "--group-id", _GROUP]
        options += ["--group-protocol", protocol, "--verbose"]
        if protocol == "classic":
            options += ["--session-timeout", "6000", "--assignment-strategy", strategy]
        self.program = JavaProgram("org.apache.kafka.tools.VerifiableConsumer", options, directory)
        self.program.start()

    def values(self) -> set[int]:
        """What it has read so far."""
        lines = [line for line in self.program.lines() if line.startswith('{"')]
        events = [event for event in map(json.loads, lines) if event["name"] == "record_data"]
        return {int(event["value"]) for event in events}

    def stop(self) -> None:
        assert self.program.stop() in (0, 143), self.program.tail()


class Rolling:
    """A group of two whose members are replaced one by one."""

    def __init__(self, broker: Broker, directory: Path, strategy: str) -> None:
        self._broker = broker
        self._directory = directory
        self._strategy = strategy
        self._alive: list[JavaMember] = []
        self._all: list[JavaMember] = []
        self._written = 0

    def add(self, protocol: str) -> None:
        directory = self._directory / f"member-{len(self._all)}"
        self._alive.append(JavaMember(self._broker, directory, protocol, self._strategy))
        self._all.append(self._alive[-1])

    def replace(self, protocol: str) -> None:
        self._alive.pop(0).stop()
        self.add(protocol)

    def write_and_wait(self, kind: str) -> None:
        """Write to every partition, wait until the group has read it all, and see that it is of this kind by then."""
        producer = Producer({"bootstrap.servers": self._broker.bootstrap_servers})
        for number in range(self._written, self._written + _COUNT):
            producer.produce(_TOPIC, str(number).encode(), partition=number % _PARTITIONS)
        assert producer.flush(_TIMEOUT_S) == 0
        self._written += _COUNT
        wanted = set(range(self._written))
        until(
            lambda: wanted <= set().union(*(one.values() for one in self._all)) and self._kind() == kind,
            lambda: "\n".join(one.program.tail() for one in self._alive),
        )
        # The newest member has got a share.
        last = self._alive[-1]
        last.program.until(lambda: '"partitions_assigned"' in last.program.output)

    def end(self) -> None:
        for one in self._alive:
            one.program.kill()

    def _kind(self) -> str:
        admin = AdminClient({"bootstrap.servers": self._broker.bootstrap_servers})
        listed = admin.list_consumer_groups().result(_TIMEOUT_S)
        return "".join(group.type.name.lower() for group in listed.valid if group.group_id == _GROUP)


@pytest.fixture(params=["RangeAssignor", "CooperativeStickyAssignor"])
def rolling(request: pytest.FixtureRequest, broker: Broker, tmp_path: Path) -> Iterator[Rolling]:
    members = Rolling(broker, tmp_path, f"org.apache.kafka.clients.consumer.{request.param}")
    yield members
    members.end()


def test_java_consumers_change_their_protocol_one_by_one_and_back(rolling: Rolling) -> None:
    rolling.add("classic")
    rolling.add("classic")
    rolling.write_and_wait("classic")
    for protocol in ("consumer", "classic"):
        rolling.replace(protocol)
        rolling.write_and_wait("consumer")
        rolling.replace(protocol)
        rolling.write_and_wait(protocol)
