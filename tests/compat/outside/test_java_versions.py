"""Java clients of nine years: the first that speaks today's record format, the oldest that Kafka 4 promises to serve, the newest."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.compat.outside.toolchains import JavaApplication
from tests.compat.program import APPLICATIONS

from catchment.spark.launch.connector_jars import Artifact
from catchment.testing.embedded import Broker

# Each fetches its jars first.
pytestmark = pytest.mark.timeout(1500)
_CODECS = {
    # Support for zstd came with 2.1.
    "0.11.0.3": ["none", "gzip", "snappy", "lz4"],
    "2.1.0": ["none", "gzip", "snappy", "lz4", "zstd"],
    "4.4.0": ["none", "gzip", "snappy", "lz4", "zstd"],
}


@pytest.mark.parametrize("version", _CODECS)
def test_a_client_of_any_age_writes_reads_and_has_transactions(broker: Broker, tmp_path: Path, version: str) -> None:
    codecs = _CODECS[version]
    client = JavaApplication(
        APPLICATIONS / "AnyVersion.java",
        "AnyVersion",
        (Artifact("org.apache.kafka", "kafka-clients", version),),
        [broker.bootstrap_servers, f"any-version-{version}", *codecs],
        tmp_path,
    )
    with client:
        assert client.wait() == 0, client.tail()
    written = [*codecs, *(f"transaction-{number}" for number in range(1, 10) if number % 3)]
    assert client.lines() == [f"key-{number} {name} {number}" for name in written for number in range(100)]
