"""The servers that the client is tried on: an embedded broker, and Apache Kafka where Java and its jars are there."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.client.logs import CatchmentLogs, KafkaLogs, Logs
from tests.client.played_brokers import PlayedBroker, PlayedCluster
from tests.compat.java_tool import require_java

from catchment.bench.peers.kafka import KafkaServer
from catchment.testing.embedded import Broker

# Tests wait for transactions that time out.
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}


@pytest.fixture(scope="session")
def catchment_logs() -> Iterator[CatchmentLogs]:
    with Broker(settings=SETTINGS) as broker:
        yield CatchmentLogs(broker)


@pytest.fixture(scope="session")
def kafka_logs() -> Iterator[KafkaLogs]:
    require_java()
    # Shards of coordinators are made when they are first asked for: one each is enough here.
    few = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with KafkaServer({**SETTINGS, **few}) as server:
        yield KafkaLogs(server.bootstrap_servers)


@pytest.fixture(params=["catchment", "kafka"])
def logs(request: pytest.FixtureRequest) -> Logs:
    """Each kind of server in turn."""
    server: Logs = request.getfixturevalue(f"{request.param}_logs")
    return server


@pytest.fixture
def played() -> Iterator[PlayedCluster]:
    cluster = PlayedCluster(PlayedBroker(10), PlayedBroker(10))
    yield cluster
    for broker in cluster.brokers:
        broker.shut()
