"""One Spark session with Spark's own connector, and one broker, for all tests of real-time mode."""

from __future__ import annotations

from tests.client.conftest import catchment_logs
from tests.spark.conftest import peer_jars, spark, spark_with_peer

__all__ = ["catchment_logs", "peer_jars", "spark", "spark_with_peer"]
