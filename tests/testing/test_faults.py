"""Injected faults, as an ordinary client sees them."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest
from confluent_kafka import KafkaException
from confluent_kafka.admin import AdminClient, NewTopic
from tests.testing.clients import read_all, write

if TYPE_CHECKING:
    from catchment.testing.embedded import Broker
    from catchment.testing.faults import Faults

VALUES = [b"%d" % number for number in range(100)]
QUICK = {"retry.backoff.ms": 10, "retry.backoff.max.ms": 50, "reconnect.backoff.ms": 10, "reconnect.backoff.max.ms": 50}


def connect(broker: Broker) -> socket.socket:
    host, port = broker.bootstrap_servers.split(":")
    connection = socket.create_connection((host, int(port)), timeout=30)
    connection.settimeout(30)
    return connection


def connect_and_read(broker: Broker) -> bytes:
    with connect(broker) as connection:
        return connection.recv(1)


@pytest.mark.parametrize("error", ["NOT_LEADER_OR_FOLLOWER", "NOT_ENOUGH_REPLICAS", "LEADER_NOT_AVAILABLE"])
def test_a_producer_retries_rejected_batches_and_loses_nothing(
    catchment_broker: Broker, catchment_topic: str, catchment_faults: Faults, error: str
) -> None:
    catchment_faults.answer("Produce", error, times=2)
    assert write(catchment_broker.bootstrap_servers, catchment_topic, VALUES, **QUICK) == []
    assert catchment_faults.answers_left("Produce") == 0
    assert read_all(catchment_broker.bootstrap_servers, catchment_topic) == VALUES


def test_a_producer_gives_up_on_an_error_that_is_final(
    catchment_broker: Broker, catchment_topic: str, catchment_faults: Faults
) -> None:
    catchment_faults.answer("Produce", "TOPIC_AUTHORIZATION_FAILED")
    (error,) = write(catchment_broker.bootstrap_servers, catchment_topic, [b"refused"], **QUICK)
    assert error.name() == "TOPIC_AUTHORIZATION_FAILED"
    assert read_all(catchment_broker.bootstrap_servers, catchment_topic) == []


def test_a_consumer_retries_a_failed_fetch(
    catchment_broker: Broker, catchment_topic: str, catchment_faults: Faults
) -> None:
    assert write(catchment_broker.bootstrap_servers, catchment_topic, VALUES) == []
    catchment_faults.answer("Fetch", "NOT_LEADER_OR_FOLLOWER", times=2)
    assert read_all(catchment_broker.bootstrap_servers, catchment_topic) == VALUES
    assert catchment_faults.answers_left("Fetch") == 0


@pytest.mark.parametrize("api", ["Metadata", "InitProducerId", "ApiVersions"])
def test_a_client_survives_a_retriable_error_of_any_api(
    catchment_broker: Broker, catchment_topic: str, catchment_faults: Faults, api: str
) -> None:
    error = {"Metadata": "LEADER_NOT_AVAILABLE", "InitProducerId": "COORDINATOR_LOAD_IN_PROGRESS"}
    catchment_faults.answer(api, error.get(api, "UNSUPPORTED_VERSION"))
    assert write(catchment_broker.bootstrap_servers, catchment_topic, VALUES, **QUICK) == []
    assert catchment_faults.answers_left(api) == 0
    assert read_all(catchment_broker.bootstrap_servers, catchment_topic) == VALUES


def test_an_admin_call_gets_the_error_of_its_topic(catchment_broker: Broker, catchment_faults: Faults) -> None:
    catchment_faults.answer("CreateTopics", "POLICY_VIOLATION")
    admin = AdminClient({"bootstrap.servers": catchment_broker.bootstrap_servers})
    with pytest.raises(KafkaException, match="POLICY_VIOLATION"):
        admin.create_topics([NewTopic("refused", 1, 1)])["refused"].result(30)
    assert "refused" not in admin.list_topics(timeout=30).topics


def test_errors_are_returned_in_the_order_of_the_calls(catchment_faults: Faults) -> None:
    catchment_faults.answer("Fetch", "OFFSET_OUT_OF_RANGE")
    catchment_faults.answer("fetch", "not_leader_or_follower", times=2)
    assert catchment_faults.answers_left("Fetch") == 3
    catchment_faults.clear()
    assert catchment_faults.answers_left("Fetch") == 0


def test_unknown_apis_and_errors_are_rejected(catchment_faults: Faults) -> None:
    with pytest.raises(ValueError, match="no API named Prodduce"):
        catchment_faults.answer("Prodduce", "NOT_LEADER_OR_FOLLOWER")
    with pytest.raises(ValueError, match="no error named BAD_DAY"):
        catchment_faults.answer("Produce", "BAD_DAY")


def test_a_rejected_connection_is_reset_until_connections_are_accepted_again(
    catchment_broker: Broker, catchment_topic: str, catchment_faults: Faults
) -> None:
    catchment_faults.refuse_connections()
    with pytest.raises(ConnectionResetError):
        connect_and_read(catchment_broker)
    catchment_faults.accept_connections()
    assert write(catchment_broker.bootstrap_servers, catchment_topic, VALUES, **QUICK) == []


def test_dropped_connections_are_reset_and_new_ones_are_accepted(
    catchment_broker: Broker, catchment_topic: str, catchment_faults: Faults
) -> None:
    with connect(catchment_broker) as connection:
        # The connection is in the kernel's queue until the broker has responded on it.
        connection.sendall(b"\x00\x00\x00\x0a\x00\x12\x00\x00\x00\x00\x00\x01\xff\xff")
        (size,) = struct.unpack(">i", connection.recv(4, socket.MSG_WAITALL))
        assert len(connection.recv(size, socket.MSG_WAITALL)) == size
        catchment_faults.drop_connections()
        with pytest.raises(ConnectionResetError):
            connection.recv(1)
    assert write(catchment_broker.bootstrap_servers, catchment_topic, VALUES, **QUICK) == []


def test_a_delayed_connection_is_slow_and_loses_nothing(
    catchment_broker: Broker, catchment_topic: str, catchment_faults: Faults
) -> None:
    catchment_faults.delay_connections(0.2)
    start_s = time.monotonic()
    assert write(catchment_broker.bootstrap_servers, catchment_topic, VALUES) == []
    assert time.monotonic() - start_s > 0.4
    catchment_faults.delay_connections(0)
    assert read_all(catchment_broker.bootstrap_servers, catchment_topic) == VALUES


def test_a_full_disk_rejects_writes_allows_reads_and_recovers_with_space(
    catchment_broker_factory: Callable[..., Broker],
) -> None:
    broker = catchment_broker_factory()
    broker.create_topic("topic")
    assert write(broker.bootstrap_servers, "topic", [b"before"]) == []
    broker.faults.fill_disk()
    (error,) = write(broker.bootstrap_servers, "topic", [b"lost"], **QUICK, **{"message.timeout.ms": 500})
    assert error is not None
    assert read_all(broker.bootstrap_servers, "topic") == [b"before"]
    broker.faults.free_disk()
    assert write(broker.bootstrap_servers, "topic", [b"after"]) == []
    assert read_all(broker.bootstrap_servers, "topic") == [b"before", b"after"]
    broker.stop()


def test_writes_are_rejected_until_the_disk_works_again(
    catchment_broker_factory: Callable[..., Broker],
) -> None:
    broker = catchment_broker_factory()
    broker.create_topic("topic")
    broker.faults.fail_disk_writes()
    (error,) = write(broker.bootstrap_servers, "topic", [b"lost"], **QUICK, **{"message.timeout.ms": 500})
    assert error is not None
    broker.faults.fail_disk_writes(False)
    assert write(broker.bootstrap_servers, "topic", [b"after"]) == []
    assert read_all(broker.bootstrap_servers, "topic") == [b"after"]
    broker.stop()


def test_a_failed_sync_acknowledges_nothing_and_loses_nothing_acknowledged(
    catchment_broker_factory: Callable[..., Broker],
) -> None:
    broker = catchment_broker_factory()
    broker.create_topic("topic")
    assert write(broker.bootstrap_servers, "topic", [b"before"]) == []
    broker.faults.fail_disk_syncs()
    (error,) = write(broker.bootstrap_servers, "topic", [b"lost"], **QUICK, **{"message.timeout.ms": 500})
    assert error is not None
    broker.faults.clear()
    broker.kill()
    broker.start()
    assert read_all(broker.bootstrap_servers, "topic") == [b"before"]
    broker.stop()


def test_a_broker_in_a_directory_has_no_disk_faults(
    catchment_broker_factory: Callable[..., Broker], tmp_path_factory: pytest.TempPathFactory
) -> None:
    broker = catchment_broker_factory(tmp_path_factory.mktemp("data"))
    with pytest.raises(ValueError, match="in memory"):
        broker.faults.fill_disk()
    broker.faults.clear()
