"""What all tests of a process share: an embedded broker, an Apache Kafka where Java and its jars are there, and a Spark session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.client.logs import CatchmentLogs, KafkaLogs, Logs
from tests.compat.java_tool import require_java
from tests.spark.shared_session import get_session, stop_session

from catchment.bench.peers.kafka import KafkaServer
from catchment.bench.peers.maven import PeerUnavailable, connector_jars
from catchment.testing.embedded import Broker

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# Tests wait for transactions that time out.
SETTINGS = {"transaction.abort.timed.out.transaction.cleanup.interval.ms": "100"}


@pytest.fixture(scope="session")
def catchment_logs() -> Iterator[CatchmentLogs]:
    with Broker(settings=SETTINGS) as broker:
        yield CatchmentLogs(broker)


@pytest.fixture(scope="session")
def kafka_logs() -> Iterator[KafkaLogs]:
    require_java()
    # CoordinatorRuntime of coordinators are made when they are first asked for: one each is enough here.
    few = {"offsets.topic.num.partitions": "1", "transaction.state.log.num.partitions": "1"}
    with KafkaServer({**SETTINGS, **few}) as server:
        yield KafkaLogs(server.bootstrap_servers)


@pytest.fixture(params=["catchment", "kafka"])
def logs(request: pytest.FixtureRequest) -> Logs:
    """Each kind of server in turn."""
    server: Logs = request.getfixturevalue(f"{request.param}_logs")
    return server


@pytest.fixture(scope="session")
def peer_jars() -> str | None:
    """The jars of Spark's own connector as `spark.jars` takes them; None where Maven cannot fetch them."""
    try:
        return ",".join(map(str, connector_jars()))
    except PeerUnavailable:
        return None


@pytest.fixture(scope="session")
def session_config(peer_jars: str | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    yield {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")), "spark.jars": peer_jars or ""}
    stop_session()


@pytest.fixture
def spark(session_config: dict[str, str]) -> SparkSession:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment-streaming[spark]'")
    return get_session(session_config)


@pytest.fixture
def spark_with_peer(spark: SparkSession, peer_jars: str | None) -> SparkSession:
    """The session for a test that compares with `format("kafka")`."""
    if peer_jars is None:
        pytest.skip("the jars of Spark's own Kafka connector cannot be fetched: they need Maven")
    return spark
