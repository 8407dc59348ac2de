"""What is looked at before Spark starts: whether brokers answer, and whether the topics are there that a pipeline reads."""

from __future__ import annotations

import socket
import threading
from typing import Any

import pytest

from catchment import Broker
from catchment.client.errors import SettingsError
from catchment.pipelines.checks.preflight import BrokersAway, missing_topics, topics_there
from catchment.pipelines.declaration.declared import Declared
from catchment.pipelines.declaration.specification import PipelineSpecification


def pipeline(**more: Any) -> PipelineSpecification:
    declared = {
        "pipeline": "city",
        "sources": {"orders": {"topic": "shop.orders", "schema": "id int, at timestamp"}},
        "tables": {"prices": {"topic": "prices", "schema": "id int, price int", "key": "id"}},
        "sinks": [{"from": "orders", "topic": "shop.copied"}],
    }
    return Declared(declared | more).check()


def test_the_topics_are_listed() -> None:
    with Broker() as broker:
        broker.create_topic("shop.orders")
        assert "shop.orders" in topics_there(broker.bootstrap_servers, {})


def test_every_topic_that_is_missing_is_named_with_a_near_one_and_a_way_out() -> None:
    found = list(missing_topics(pipeline(), {"shop.order", "other"}))

    assert found == [
        (
            ("sources", "orders", "topic"),
            "the topic shop.orders of sources.orders does not exist; did you mean shop.order? "
            "`catchment topic create shop.orders` creates it",
        ),
        (
            ("tables", "prices", "topic"),
            "the topic prices of tables.prices does not exist; `catchment topic create prices` creates it",
        ),
    ]


def test_a_topic_that_the_run_creates_is_not_missing() -> None:
    corrected = {"from": "orders", "when": "id > 0", "key": "id", "to": {"topic": "prices"}}

    found = missing_topics(pipeline(alerts={"corrected": corrected}), ())

    assert [path for path, _ in found] == [("sources", "orders", "topic")]


def test_brokers_that_refuse_connections_are_named_each_with_the_reason() -> None:
    waits: list[str] = []
    with pytest.raises(
        BrokersAway, match=r"no broker answers at 127\.0\.0\.1:1 \(connection refused\), no\.invalid:9092"
    ):
        topics_there("127.0.0.1:1,no.invalid:9092", {}, wait_s=0.3, on_wait=waits.append)
    [wait] = waits
    assert "127.0.0.1:1 (connection refused)" in wait


def test_a_server_that_answers_nothing_is_named_and_does_not_hold_up_the_command() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"127.0.0.1:{silent.getsockname()[1]}"
        with pytest.raises(BrokersAway, match=f"no broker answers at {address}"):
            topics_there(address, {}, wait_s=0.1)


def test_a_broker_that_restarts_is_waited_for() -> None:
    """It comes back while the command waits, which is reported by the wait itself."""
    with Broker() as broker:
        [_, port] = broker.bootstrap_servers.split(":")
        with socket.create_server(("127.0.0.1", 0)) as gate:
            address = f"127.0.0.1:{gate.getsockname()[1]}"
        forwards = threading.Event()

        def come_back(_: str) -> None:
            threading.Thread(target=_forward, args=(address, int(port), forwards), daemon=True).start()
            assert forwards.wait(60)

        # The forwarder shows that it was connected to; the broker itself is found by its own address.
        topics_there(f"{address}", {}, wait_s=120, on_wait=come_back)


def _forward(address: str, port: int, is_ready: threading.Event) -> None:
    host, own = address.split(":")
    with socket.create_server((host, int(own))) as server:
        is_ready.set()
        while True:
            incoming, _ = server.accept()
            outgoing = socket.create_connection(("127.0.0.1", port))
            for one, other in ((incoming, outgoing), (outgoing, incoming)):
                threading.Thread(target=_copy, args=(one, other), daemon=True).start()


def _copy(one: socket.socket, other: socket.socket) -> None:
    try:
        while data := one.recv(65_536):
            other.sendall(data)
    except OSError:
        pass
    other.close()


def test_settings_that_the_client_refuses_are_the_authors_to_correct() -> None:
    with Broker() as broker, pytest.raises(SettingsError, match=r"no\.such\.setting"):
        topics_there(broker.bootstrap_servers, {"no.such.setting": "1"})
