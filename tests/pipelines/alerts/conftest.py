"""One Spark session and one broker for all tests of alerts."""

from __future__ import annotations

from tests.client.conftest import catchment_logs, kafka_logs, logs
from tests.spark.conftest import peer_jars, spark

__all__ = ["catchment_logs", "kafka_logs", "logs", "peer_jars", "spark"]
