"""A cluster with failures: retriable errors are retried, everything else is reported."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from uuid import uuid4

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.metadata.v13.response import MetadataResponsePartition, MetadataResponseTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i32

from catchment.client.cluster import GROUP, Cluster, Coordinator, Leader
from catchment.client.errors import BrokerError, TimedOut, Unreachable
from catchment.client.offsets import LATEST, Position
from catchment.client.topic_metadata import Topic, metadata_request, read_topic
from catchment.testing.embedded import Broker

PLACE = ("t", 0)
FAST = {"retry.backoff.ms": "10", "retry.backoff.max.ms": "20"}


@pytest.fixture
def broker() -> Iterator[Broker]:
    with Broker(settings={"auto.create.topics.enable": False}) as running:
        running.create_topic("t", 1)
        yield running


@pytest.fixture
def cluster(broker: Broker) -> Iterator[Cluster]:
    with Cluster(broker.bootstrap_servers, FAST, timeout_s=20) as client:
        yield client


def test_lost_connections_are_opened_again(broker: Broker, cluster: Cluster) -> None:
    assert cluster.partitions("t") == [0]
    broker.faults.drop_connections()
    cluster.refresh(["t"])
    broker.faults.drop_connections()
    assert cluster.list_offsets([PLACE], LATEST)[PLACE].offset == 0
    broker.faults.drop_connections()
    cluster.commit("g", {PLACE: 0})
    broker.restart()
    assert cluster.committed("g", [PLACE]) == {PLACE: Position(0)}


@pytest.mark.parametrize(
    "code",
    [
        ErrorCode.not_leader_or_follower,
        ErrorCode.fenced_leader_epoch,
        ErrorCode.unknown_leader_epoch,
        ErrorCode.offset_not_available,
        ErrorCode.unknown_topic_or_partition,
    ],
)
def test_offsets_are_requested_from_the_new_leader(broker: Broker, cluster: Cluster, code: ErrorCode) -> None:
    broker.faults.answer("ListOffsets", code, 2)
    assert cluster.list_offsets([PLACE], LATEST)[PLACE].offset == 0
    assert broker.faults.answers_left("ListOffsets") == 0


def test_a_lasting_error_is_reported_with_the_partition(broker: Broker, cluster: Cluster) -> None:
    broker.faults.answer("ListOffsets", ErrorCode.topic_authorization_failed, 100)
    with pytest.raises(BrokerError, match="cannot list the offsets of t-0") as raised:
        cluster.list_offsets([PLACE], LATEST)
    assert raised.value.code is ErrorCode.topic_authorization_failed
    assert broker.faults.answers_left("ListOffsets") == 99


def test_a_leader_that_keeps_changing_is_an_error_in_time(broker: Broker) -> None:
    broker.faults.answer("ListOffsets", ErrorCode.not_leader_or_follower, 10_000)
    with (
        Cluster(broker.bootstrap_servers, FAST, timeout_s=3) as cluster,
        pytest.raises(BrokerError, match="NOT_LEADER_OR_FOLLOWER"),
    ):
        cluster.list_offsets([PLACE], LATEST)


@pytest.mark.parametrize("api", ["FindCoordinator", "OffsetCommit", "OffsetFetch"])
@pytest.mark.parametrize("code", [ErrorCode.coordinator_not_available, ErrorCode.coordinator_load_in_progress])
def test_a_coordinator_that_is_loading_is_waited_for(
    broker: Broker, cluster: Cluster, api: str, code: ErrorCode
) -> None:
    broker.faults.answer(api, code, 2)
    cluster.commit("g", {PLACE: 4})
    assert cluster.committed("g", [PLACE]) == {PLACE: Position(4)}
    assert broker.faults.answers_left(api) == 0


def test_a_coordinator_that_has_moved_is_looked_for(broker: Broker, cluster: Cluster) -> None:
    cluster.commit("g", {PLACE: 4})
    broker.faults.answer("OffsetFetch", ErrorCode.not_coordinator)
    broker.faults.answer("FindCoordinator", ErrorCode.coordinator_not_available)
    assert cluster.committed("g", [PLACE]) == {PLACE: Position(4)}
    assert broker.faults.answers_left("FindCoordinator") == 0


def test_a_rejected_commit_says_why(broker: Broker, cluster: Cluster) -> None:
    broker.faults.answer("OffsetCommit", ErrorCode.unknown_member_id)
    with pytest.raises(BrokerError, match=r"cannot commit the offsets of group g: .* stop them"):
        cluster.commit("g", {PLACE: 4})


def test_a_new_topic_is_waited_for(broker: Broker, cluster: Cluster) -> None:
    broker.faults.answer("Metadata", ErrorCode.unknown_topic_or_partition, 3)
    assert cluster.partitions("t") == [0]
    assert broker.faults.answers_left("Metadata") == 0


def test_a_missing_permission_is_reported_at_once(broker: Broker, cluster: Cluster) -> None:
    broker.faults.answer("Metadata", ErrorCode.topic_authorization_failed)
    with pytest.raises(BrokerError, match=r"topic t: .*Ask for access"):
        cluster.partitions("t")


def test_one_attempt_is_made_where_one_is_wanted(broker: Broker, cluster: Cluster) -> None:
    assert cluster.broker_ids() == [1]
    broker.faults.drop_connections()
    with pytest.raises(Unreachable):
        cluster.ask(metadata_request(()), to=1, once=True)
    assert cluster.ask(metadata_request(()), to=1, once=True).brokers


def test_an_unreachable_cluster_is_an_error_in_time(broker: Broker) -> None:
    with Cluster(broker.bootstrap_servers, FAST, timeout_s=3) as cluster:
        assert cluster.partitions("t") == [0]
        broker.stop()
        started_at_s = time.monotonic()
        with pytest.raises(Unreachable, match=r"cannot connect to .*refused.*Check that the broker is up"):
            cluster.ask(metadata_request(()), to=Coordinator("g", GROUP))
        assert time.monotonic() - started_at_s < 20


def test_a_broker_that_stops_responding_leaves_time_to_ask_another(broker: Broker) -> None:
    with Cluster(broker.bootstrap_servers, FAST, timeout_s=10) as cluster:
        assert cluster.partitions("t") == [0]
        broker.faults.delay_connections(60)
        heard = threading.Timer(1, broker.faults.clear)
        heard.start()
        # The first response would arrive after a minute. The request is repeated on another connection in time.
        cluster.refresh(["t"])
        heard.join()


def test_a_slow_broker_is_an_error_in_time(broker: Broker) -> None:
    with Cluster(broker.bootstrap_servers, FAST, timeout_s=3) as cluster:
        assert cluster.partitions("t") == [0]
        broker.faults.delay_connections(30)
        with pytest.raises((TimedOut, Unreachable)):
            cluster.refresh(["t"])


def test_older_metadata_of_a_leader_does_not_replace_newer() -> None:
    partition = MetadataResponsePartition(
        error_code=ErrorCode.none,
        partition_index=i32(0),
        leader_id=BrokerId(2),
        leader_epoch=i32(5),
        replica_nodes=(),
        isr_nodes=(),
        offline_replicas=(),
    )
    topic = MetadataResponseTopic(
        error_code=ErrorCode.none, name=TopicName("t"), topic_id=uuid4(), partitions=(partition,)
    )
    newer = Topic(topic.topic_id, {0: Leader(1, 6)})
    assert read_topic(topic, newer) == newer
    assert read_topic(topic, Topic(topic.topic_id, {0: Leader(1, 4)})).leaders == {0: Leader(2, 5)}
    # The epochs of a recreated topic start again.
    assert read_topic(replace(topic, topic_id=uuid4()), newer).leaders == {0: Leader(2, 5)}
