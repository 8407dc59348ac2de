"""One Spark session for all tests of a process, and the servers that its jobs run against."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest
from tests.client.conftest import catchment_logs, kafka_logs, logs

from catchment.bench.peers.maven import PeerUnavailable
from catchment.bench.peers.spark_connector import connector_jars

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["catchment_logs", "kafka_logs", "logs"]


@pytest.fixture(scope="session")
def peer_jars() -> str | None:
    """The jars of Spark's own connector as `spark.jars` takes them; None where Maven cannot fetch them."""
    try:
        return ",".join(map(str, connector_jars()))
    except PeerUnavailable:
        return None


@pytest.fixture(scope="session")
def spark(peer_jars: str | None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'catchment[spark]'")
    from catchment.spark import session

    config = {"spark.sql.warehouse.dir": str(tmp_path_factory.mktemp("warehouse")), "spark.jars": peer_jars or ""}
    with session("local[2]", app_name="tests", config=config) as running:
        yield running


@pytest.fixture
def spark_with_peer(spark: SparkSession, peer_jars: str | None) -> SparkSession:
    """The session for a test that compares with `format("kafka")`."""
    if peer_jars is None:
        pytest.skip("the jars of Spark's own Kafka connector cannot be fetched: they need Maven")
    return spark
