"""The proxy stops a request before the broker has it, or its answer behind the broker's back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from confluent_kafka import KafkaException, Producer
from tests.client.logs import CatchmentLogs
from tests.spark.soak.wire_proxy import END_TXN, Trap, WireProxy

from catchment.testing.embedded import Broker

_SECONDS = 30.0


@pytest.fixture
def proxy() -> Iterator[WireProxy]:
    with WireProxy() as proxy:
        yield proxy


@pytest.fixture
def logs(proxy: WireProxy) -> Iterator[CatchmentLogs]:
    with Broker(settings=proxy.advertised) as broker:
        proxy.lead_to(int(broker.bootstrap_servers.rpartition(":")[2]))
        yield CatchmentLogs(broker)


@pytest.mark.parametrize(
    ("trap", "values"),
    [
        (Trap(END_TXN), []),
        (Trap(END_TXN, holds_answer=True), [b"written"]),
        (Trap(END_TXN, passes=1), [b"written"]),
    ],
)
def test_a_commit_is_stopped_where_the_trap_says(
    proxy: WireProxy, logs: CatchmentLogs, trap: Trap, values: list[bytes]
) -> None:
    topic = logs.topic()
    producer = Producer({"bootstrap.servers": proxy.bootstrap_servers, "transactional.id": "t", "log_level": 0})
    producer.init_transactions(_SECONDS)
    producer.begin_transaction()
    producer.produce(topic, b"written")
    assert producer.flush(_SECONDS) == 0
    proxy.arm(trap)
    if trap.passes:
        producer.commit_transaction(_SECONDS)
        assert not trap.is_sprung.is_set()
        assert logs.values(topic) == values
        return
    with pytest.raises(KafkaException):
        producer.commit_transaction(1)
    assert trap.is_sprung.is_set()
    assert logs.values(topic) == values
    proxy.disarm()
    producer.commit_transaction(_SECONDS)
    assert logs.settled_values(topic) == [b"written"]
