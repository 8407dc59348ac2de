"""Where topics end, asked beside the queries; and calls to stores that take long."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import Producer
from tests.pipelines.driving.supervised import wait_for

from catchment import Broker
from catchment.pipelines.driving.status.log_end_offsets import LogEndOffsets
from catchment.pipelines.execution.run_context import StoreCalls
from catchment.spark.options.connection import Connection

PLACE = ("reports", 0)


def send_five(servers: str) -> None:
    producer = Producer({"bootstrap.servers": servers})
    for _ in range(5):
        producer.produce(PLACE[0], b"x", partition=0)
    assert producer.flush(30) == 0


def test_the_ends_follow_the_topics_and_stay_as_they_were_while_the_broker_is_away() -> None:
    with Broker(settings={"num.partitions": 1}) as broker:
        servers = broker.bootstrap_servers
        with LogEndOffsets(Connection.read({"kafka.bootstrap.servers": servers})) as ends:
            send_five(servers)
            wait_for("the topic ends at 5", lambda: ends.of([PLACE]) == {PLACE: 5})
            send_five(servers)
            wait_for("the topic ends at 10", lambda: ends.of([PLACE]) == {PLACE: 10})
            broker.stop()
            assert ends.of([PLACE]) == {PLACE: 10}


def test_a_call_that_is_under_way_tells_for_how_long_and_is_forgotten_when_it_fails() -> None:
    calls = StoreCalls()
    assert calls.lasts_s("q") == 0.0
    is_over = threading.Event()

    def call() -> None:
        with calls.under_way("q"):
            is_over.wait(60)

    thread = threading.Thread(target=call)
    thread.start()
    wait_for("the call lasts", lambda: calls.lasts_s("q") > 0.05)
    is_over.set()
    thread.join()
    assert calls.lasts_s("q") == 0.0

    with pytest.raises(ValueError, match="refused"), calls.under_way("q"):
        raise ValueError("refused")
    assert calls.lasts_s("q") == 0.0
