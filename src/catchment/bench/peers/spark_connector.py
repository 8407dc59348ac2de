"""Spark's own Kafka connector, the peer of our source and sink: four jars for `spark.jars`.

They are fetched one by one, without what their poms name: Spark's parent pom points to a second repository, which a
machine behind a mirror does not reach, and the rest of what the connector needs is in PySpark already. The versions are the
newest that Maven Central has of each; they run on Spark 4.3.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

from catchment.bench.peers.maven import Artifact, jar

_JARS: Final = (
    Artifact("org.apache.spark", "spark-sql-kafka-0-10_2.13", "4.2.0"),
    Artifact("org.apache.spark", "spark-token-provider-kafka-0-10_2.13", "4.1.0-preview1"),
    Artifact("org.apache.kafka", "kafka-clients", "3.9.1"),
    Artifact("org.apache.commons", "commons-pool2", "2.12.1"),
)


def connector_jars() -> list[Path]:
    """The connector's jars, from the cache or from Maven; raises PeerUnavailable where they cannot be had."""
    return [jar(artifact) for artifact in _JARS]
