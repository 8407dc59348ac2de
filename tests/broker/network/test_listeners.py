"""The number of connections, and how long one may be idle."""

import contextlib
import socket
from collections.abc import Mapping

import pytest
from tests.broker.handlers.log_requests import append, batch, fetch_request
from tests.broker.handlers.wire import Wire
from tests.waiting import wait_until

from catchment.testing.embedded import Broker

DEADLINE_S = 150.0


def _is_served(broker: Broker) -> bool:
    try:
        with Wire(broker) as wire:
            wire.exchange(b"\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff")
    except ConnectionError:
        return False
    return True


def _connect(broker: Broker) -> socket.socket:
    host, _, port = broker.bootstrap_servers.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=DEADLINE_S)


@pytest.mark.parametrize(
    "settings",
    [
        {"max.connections": 2},
        {"max.connections.per.ip": 2},
        {"max.connections.per.ip": 100, "max.connections.per.ip.overrides": "127.0.0.1:2"},
    ],
    ids=["in all", "by address", "by this address"],
)
def test_beyond_the_limit_connections_are_rejected_until_one_leaves(settings: Mapping[str, object]) -> None:
    with Broker(settings=settings) as broker:
        first, second = Wire(broker), Wire(broker)
        for wire in (first, second):
            wire.exchange(b"\x00\x12\x00\x00\x00\x00\x00\x07\xff\xff")
        assert not _is_served(broker)
        first.close()
        wait_until(lambda: _is_served(broker), timeout_s=DEADLINE_S)
        second.close()


def test_an_idle_connection_is_closed() -> None:
    with Broker(settings={"connections.max.idle.ms": 200}) as broker, _connect(broker) as silent:
        assert silent.recv(1) == b""


def test_a_connection_that_waits_for_a_response_is_not_idle() -> None:
    with Broker(settings={"connections.max.idle.ms": 200}) as broker, Wire(broker) as waiting:
        broker.create_topic("a")
        waiting.send(fetch_request("a", (0, 0), max_wait_ms=60_000), 12)
        with _connect(broker) as silent:
            assert silent.recv(1) == b""
        with Wire(broker) as writer:
            append(writer, "a", batch(b"x"))
        assert waiting.receive().responses[0].partitions[0].records


def test_a_connection_that_arrives_while_the_broker_stops_is_closed_with_the_others() -> None:
    for _ in range(20):
        broker = Broker()
        broker.start()
        clients = [_connect(broker) for _ in range(5)]
        broker.stop()
        for client in clients:
            with client, contextlib.suppress(ConnectionResetError):
                assert client.recv(1) == b""
