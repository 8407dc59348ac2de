"""Spark's own Kafka connector, the peer of our source and sink: four jars for `spark.jars`."""

from __future__ import annotations

from pathlib import Path

from catchment.bench.peers.maven import PeerUnavailable
from catchment.spark.launch.connector_jars import JarsUnavailable
from catchment.spark.launch.connector_jars import connector_jars as fetched_jars


def connector_jars() -> list[Path]:
    """The connector's jars, from the cache or from Maven; raises PeerUnavailable where they cannot be had."""
    try:
        return fetched_jars()
    except JarsUnavailable as error:
        raise PeerUnavailable(str(error)) from error
