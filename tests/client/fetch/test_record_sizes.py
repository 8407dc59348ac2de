"""The mean size of records from a small sample, compressed or not, on both kinds of server."""

from __future__ import annotations

import os

import pytest
from tests.client.logs import CatchmentLogs, Logs

from catchment.client.cluster import Cluster
from catchment.client.fetch.record_sizes import mean_record_bytes
from catchment.testing.embedded import Broker


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
@pytest.mark.parametrize("size", [100, 10_000, 200_000])
def test_the_mean_is_that_of_the_uncompressed_records(logs: Logs, codec: str, size: int) -> None:
    topic = logs.topic()
    logs.fill(topic, [os.urandom(size) for _ in range(20)], settings={"compression.type": codec, "linger.ms": 100})
    with Cluster(logs.bootstrap_servers) as cluster:
        mean_bytes = mean_record_bytes(cluster, (topic, 0), 0)
    assert mean_bytes is not None
    assert size < mean_bytes < size + 100


def test_the_sample_starts_at_the_offset(logs: Logs) -> None:
    topic = logs.topic()
    logs.fill(topic, [b"small"] * 10)
    logs.fill(topic, [os.urandom(50_000)] * 5)
    with Cluster(logs.bootstrap_servers) as cluster:
        mean_bytes = mean_record_bytes(cluster, (topic, 0), 10)
        assert mean_bytes is not None
        assert mean_bytes > 50_000
        assert mean_record_bytes(cluster, (topic, 0), 15) is None, "nothing has been written there"


def test_transaction_markers_do_not_count_as_records(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    catchment_logs.transaction(topic, [b"x" * 1000] * 3, commit=True)
    catchment_logs.settle(topic)
    with Cluster(catchment_logs.bootstrap_servers) as cluster:
        mean_bytes = mean_record_bytes(cluster, (topic, 0), 0)
        assert mean_bytes is not None
        assert 1000 < mean_bytes < 1100
        assert mean_record_bytes(cluster, (topic, 0), 3) is None


def test_a_broker_that_stops_is_no_error() -> None:
    with Broker() as broker:
        broker.create_topic("topic")
        with Cluster(broker.bootstrap_servers, {"retry.backoff.ms": "10"}, timeout_s=1) as cluster:
            assert cluster.partitions("topic") == [0]
            broker.stop()
            assert mean_record_bytes(cluster, ("topic", 0), 0) is None
