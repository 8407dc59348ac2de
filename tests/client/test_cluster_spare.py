"""Released connections are reused, unless something is wrong with them."""

from __future__ import annotations

import socket
from unittest.mock import Mock

import pyarrow
import pytest
from kio.schema.api_versions.v4.request import ApiVersionsRequest
from tests.client.logs import CatchmentLogs

from catchment.client.cluster import Cluster
from catchment.client.errors import SettingsError
from catchment.client.network.connection import Connection, wait
from catchment.client.producer import Producer
from catchment.client.topic_metadata import metadata_request

QUESTION = ApiVersionsRequest(client_software_name="test", client_software_version="1")


def test_a_released_connection_is_reused(catchment_logs: CatchmentLogs) -> None:
    with Cluster(catchment_logs.bootstrap_servers) as cluster:
        (broker_id,) = cluster.broker_ids()
        first, second = cluster.connection(broker_id), cluster.connection(broker_id)
        assert first is not second
        cluster.release(broker_id, first)
        cluster.release(broker_id, second)
        assert not second.is_open
        assert cluster.connection(broker_id) is first
        cluster.release(broker_id, first)
    assert not first.is_open


def test_a_connection_with_a_request_in_flight_is_closed(catchment_logs: CatchmentLogs) -> None:
    with Cluster(catchment_logs.bootstrap_servers) as cluster:
        (broker_id,) = cluster.broker_ids()
        connection = cluster.connection(broker_id)
        connection.send(QUESTION)
        cluster.release(broker_id, connection)
        assert not connection.is_open


def test_a_connection_that_was_lost_meanwhile_is_not_reused(catchment_logs: CatchmentLogs) -> None:
    with Cluster(catchment_logs.bootstrap_servers) as cluster:
        (broker_id,) = cluster.broker_ids()
        connection = cluster.connection(broker_id)
        cluster.release(broker_id, connection)
        connection._socket.shutdown(socket.SHUT_WR)
        assert wait([connection], 30) == [connection]
        with cluster.connection(broker_id) as another:
            assert another is not connection
            another.ask(QUESTION)
        assert not connection.is_open


def test_an_unread_response_is_not_taken_for_another(
    catchment_logs: CatchmentLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = catchment_logs.topic()
    with Cluster(catchment_logs.bootstrap_servers) as cluster:
        cluster.topics()
        with monkeypatch.context() as older:
            older.setattr(
                Connection, "version_of", Mock(side_effect=[9, SettingsError("the broker does not serve this")])
            )
            with pytest.raises(SettingsError, match="does not serve this"):
                cluster.ask_together([(metadata_request([]), "any")] * 2)
        assert topic in cluster.topics()


def test_successive_producers_share_a_connection(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    with Cluster(catchment_logs.bootstrap_servers) as cluster:
        connections: set[Connection] = set()
        for number in range(3):
            with Producer(cluster) as producer:
                producer.write(topic, pyarrow.table({"value": [b"%d" % number]}))
            connections.update(cluster._spare.values())
        assert len(connections) == 1
    assert catchment_logs.values(topic) == [b"0", b"1", b"2"]


def test_a_producer_starts_with_its_first_partition(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic(partitions=3)
    with Cluster(catchment_logs.bootstrap_servers) as cluster:
        for first in (2, 4):
            with Producer(cluster, first_partition=first) as producer:
                producer.write(topic, pyarrow.table({"value": [b"%d" % first]}))
    assert [catchment_logs.values(topic, partition) for partition in range(3)] == [[], [b"4"], [b"2"]]
