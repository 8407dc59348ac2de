"""Quotas with real clients: Kafka's own tools set and show them, and clients report their throttle times."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, Producer, ThrottleEvent
from tests.compat.java_tool import java_tool

from catchment.cli.cluster.quota import set_quotas
from catchment.testing.embedded import Broker

Configure = Callable[..., str]

_DEADLINE_S = 300
_RECORDS = 50


@pytest.fixture
def broker() -> Iterator[Broker]:
    """A separate broker, since quotas apply to all its clients, with a window of two full seconds and the current one."""
    with Broker(settings={"quota.window.num": 3}) as running:
        yield running


@pytest.fixture
def configure(broker: Broker) -> Configure:
    def run(*arguments: str) -> str:
        location = ("--bootstrap-server", broker.bootstrap_servers)
        return java_tool("ConfigCommand", *location, *arguments, package="kafka.admin").decode()

    return run


def test_kafka_configs_sets_shows_and_removes_quotas(configure: Configure) -> None:
    both = ("--entity-type", "users", "--entity-name", "ann", "--entity-type", "clients", "--entity-default")
    configure("--alter", "--add-config", "producer_byte_rate=1048576,request_percentage=50", *both)
    described = configure("--describe", *both)
    assert "Quota configs for user-principal 'ann', the default client-id are" in described
    assert "producer_byte_rate=1048576.0" in described
    assert "request_percentage=50.0" in described
    configure("--alter", "--delete-config", "producer_byte_rate,request_percentage", *both)
    assert "producer_byte_rate" not in configure("--describe", *both)


def test_kafka_configs_sets_and_shows_quotas_of_addresses(configure: Configure) -> None:
    every_address = ("--entity-type", "ips", "--entity-default")
    configure("--alter", "--add-config", "connection_creation_rate=100000", *every_address)
    assert "connection_creation_rate=100000.0" in configure("--describe", *every_address)


def test_a_throttled_producer_gets_throttle_times_and_keeps_its_rate(broker: Broker) -> None:
    broker.create_topic("throttled-produce")
    set_quotas(client_id="slow-producer", produce_rate=100_000, bootstrap_servers=broker.bootstrap_servers)
    events: list[ThrottleEvent] = []
    producer = Producer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": "slow-producer",
            "throttle_cb": events.append,
            "batch.size": 20_000,
        }
    )
    started_s = time.monotonic()
    for _ in range(_RECORDS):
        producer.produce("throttled-produce", bytes(10_000))
        producer.poll(0)
    assert producer.flush(_DEADLINE_S) == 0
    # Two seconds' worth may come at once; the rest may not.
    assert time.monotonic() - started_s >= 2
    assert max(event.throttle_time for event in events) > 0.05


def test_a_throttled_consumer_gets_every_record_at_the_rate_that_was_set(broker: Broker) -> None:
    broker.create_topic("throttled-consume")
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "batch.size": 20_000})
    for _ in range(_RECORDS):
        producer.produce("throttled-consume", bytes(10_000))
    assert producer.flush(_DEADLINE_S) == 0
    set_quotas(client_id="slow-consumer", consume_rate=100_000, bootstrap_servers=broker.bootstrap_servers)
    events: list[ThrottleEvent] = []
    consumer = Consumer(
        {
            "bootstrap.servers": broker.bootstrap_servers,
            "client.id": "slow-consumer",
            "group.id": "slow-consumers",
            "auto.offset.reset": "earliest",
            "throttle_cb": events.append,
            "fetch.message.max.bytes": 50_000,
        }
    )
    consumer.subscribe(["throttled-consume"])
    started_s = time.monotonic()
    received = 0
    while received < _RECORDS:
        assert time.monotonic() - started_s < _DEADLINE_S
        message = consumer.poll(1)
        if message is not None:
            assert message.error() is None
            received += 1
    assert time.monotonic() - started_s >= 2
    assert max(event.throttle_time for event in events) > 0.05
    consumer.close()
