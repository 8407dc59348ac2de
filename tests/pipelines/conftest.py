"""Pipelines on a real broker and a real Spark: one of each for the tests of a process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipelines.city import City
from tests.spark.conftest import catchment_logs, kafka_logs, logs, peer_jars, spark, spark_with_peer

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.client.logs import Logs

__all__ = ["catchment_logs", "kafka_logs", "logs", "peer_jars", "spark", "spark_with_peer"]


@pytest.fixture
def city(spark: SparkSession, catchment_logs: Logs, tmp_path: Path) -> City:
    """A city on a Catchment broker, with topics, folders and a name of its own."""
    return City(spark, catchment_logs.bootstrap_servers, tmp_path)
