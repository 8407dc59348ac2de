"""Kafka's verifiable producer and consumers report what they did; broker and consumers are killed, and no record is missing."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.child_broker import ChildBroker
from tests.compat.program import JavaProgram

_TOPIC = "verified"
_PARTITIONS = 3
_COUNT = 6000
_PER_SECOND = 600


class Tool:
    """One of the verifiable tools, and the events that it has reported."""

    def __init__(self, name: str, broker: ChildBroker, directory: Path, *arguments: str) -> None:
        common = ("--bootstrap-server", broker.bootstrap_servers, "--topic", _TOPIC)
        self.program = JavaProgram(f"org.apache.kafka.tools.{name}", [*common, *arguments], directory)

    def events(self, name: str) -> Iterator[dict[str, Any]]:
        for line in self.program.lines():
            # The log goes to the same place.
            if line.startswith("{"):
                event = json.loads(line)
                if event["name"] == name:
                    yield event


class VerifiableConsumer(Tool):
    def __init__(self, broker: ChildBroker, directory: Path, protocol: str) -> None:
        options = ["--group-id", f"verified-{protocol}", "--group-protocol", protocol, "--verbose"]
        if protocol == "classic":
            options += ["--session-timeout", "6000"]
        super().__init__("VerifiableConsumer", broker, directory, *options)

    def has_partitions(self) -> bool:
        return any(event["partitions"] for event in self.events("partitions_assigned"))


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ChildBroker]:
    settings = {
        "group.initial.rebalance.delay.ms": "0",
        "group.consumer.min.session.timeout.ms": "6000",
        "group.consumer.session.timeout.ms": "6000",
        "group.consumer.min.heartbeat.interval.ms": "500",
        "group.consumer.heartbeat.interval.ms": "500",
        "group.share.min.session.timeout.ms": "6000",
        "group.share.session.timeout.ms": "6000",
        "group.share.min.heartbeat.interval.ms": "500",
        "group.share.heartbeat.interval.ms": "500",
        "group.share.min.record.lock.duration.ms": "5000",
        "group.share.record.lock.duration.ms": "5000",
    }
    with ChildBroker(tmp_path, settings) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap_servers})
        admin.create_topics([NewTopic(_TOPIC, _PARTITIONS, 1)])[_TOPIC].result(30)
        yield running


@pytest.mark.parametrize("protocol", ["classic", "consumer"])
def test_every_acknowledged_value_is_consumed_though_the_broker_and_a_consumer_are_killed(
    broker: ChildBroker, tmp_path: Path, protocol: str
) -> None:
    limits = ("--max-messages", str(_COUNT), "--throughput", str(_PER_SECOND))
    producer = Tool("VerifiableProducer", broker, tmp_path / "producer", *limits)
    first = VerifiableConsumer(broker, tmp_path / "first", protocol)
    second = VerifiableConsumer(broker, tmp_path / "second", protocol)

    def written() -> set[tuple[int, int]]:
        return places(producer, "producer_send_success")

    def consumed() -> set[tuple[int, int]]:
        return places(first, "record_data") | places(second, "record_data")

    with first.program, second.program:
        first.program.until(first.has_partitions)
        second.program.until(second.has_partitions)
        with producer.program:
            producer.program.until(lambda: len(written()) > _COUNT // 6)
            broker.kill()
            broker.start()
            producer.program.until(lambda: len(written()) > _COUNT // 3)
            first.program.kill()
            producer.program.until(lambda: len(written()) > _COUNT // 2)
            first.program.start()
            assert producer.program.wait() == 0, producer.program.tail()
        # Only what was under way while the broker was dead may have gone unacknowledged: the tool never repeats.
        assert len(written()) > _COUNT // 2
        second.program.until(lambda: written() <= consumed())
        assert first.program.stop() in (0, 143)
        assert second.program.stop() in (0, 143)
    assert_no_gaps(consumed())


def test_every_acknowledged_value_comes_out_of_a_share_group_though_a_consumer_and_the_broker_are_killed(
    broker: ChildBroker, tmp_path: Path
) -> None:
    producer = Tool("VerifiableProducer", broker, tmp_path / "producer", "--throughput", str(_PER_SECOND))
    options = ("--group-id", "shared", "--verbose", "--acknowledgement-mode", "sync")
    reset = ("--offset-reset-strategy", "earliest")
    first = Tool("VerifiableShareConsumer", broker, tmp_path / "first", *options, *reset)
    second = Tool("VerifiableShareConsumer", broker, tmp_path / "second", *options)

    def written() -> set[tuple[int, int]]:
        return places(producer, "producer_send_success")

    def consumed() -> set[tuple[int, int]]:
        return places(first, "record_data") | places(second, "record_data")

    with producer.program, first.program:
        first.program.until(lambda: len(places(first, "record_data")) > 100)
        with second.program:
            second.program.until(lambda: len(places(second, "record_data")) > 100)
            first.program.kill()
            soon = len(written()) + 1000
            second.program.until(lambda: len(written()) > soon)
            broker.kill()
            broker.start()
            later = len(written()) + 1000
            second.program.until(lambda: len(written()) > later)
            assert producer.program.stop() in (0, 143)
            second.program.until(lambda: written() <= consumed())
            assert second.program.stop() in (0, 143)
    assert_no_gaps(consumed())


def places(tool: Tool, event_name: str) -> set[tuple[int, int]]:
    """The partition and offset of every record that the tool reports."""
    return {(event["partition"], event["offset"]) for event in tool.events(event_name)}


def assert_no_gaps(places: set[tuple[int, int]]) -> None:
    """Offsets that were never acknowledged but written count too: what lies in the log is read."""
    for partition in range(_PARTITIONS):
        offsets = {offset for number, offset in places if number == partition}
        assert offsets == set(range(len(offsets)))
