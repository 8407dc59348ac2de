"""Topics, leaders, offsets and groups of a cluster, on Catchment and on Apache Kafka."""

from __future__ import annotations

import pickle
import time

import pytest
from confluent_kafka import Producer
from kio.schema.describe_cluster.v2.request import DescribeClusterRequest
from kio.schema.errors import ErrorCode
from kio.static.primitive import i8
from tests.client.logs import CatchmentLogs, Logs
from tests.waiting import wait_until

from catchment.client.cluster import GROUP, TRANSACTION, Cluster, Coordinator, Leader, Target
from catchment.client.errors import BrokerError, NoSuchBroker, SettingsError
from catchment.client.offsets import EARLIEST, LATEST, OffsetAt, Position

DESCRIBE = DescribeClusterRequest(
    include_cluster_authorized_operations=False, endpoint_type=i8(1), include_fenced_brokers=False
)


@pytest.mark.parametrize("target", ["any", "controller", 1, Coordinator("g", GROUP), Coordinator("t", TRANSACTION)])
def test_a_request_reaches_the_broker_that_it_is_for(logs: Logs, target: Target) -> None:
    with Cluster(f"127.0.0.1:1,{logs.bootstrap_servers}") as cluster:
        response = cluster.ask(DESCRIBE, to=target)
        assert [broker.broker_id for broker in response.brokers] == cluster.broker_ids() == [1]


def test_an_unknown_broker_is_reported_at_once(logs: Logs) -> None:
    with Cluster(logs.bootstrap_servers) as cluster:
        with pytest.raises(NoSuchBroker, match="the cluster has no broker 77"):
            cluster.ask(DESCRIBE, to=77)
        with pytest.raises(NoSuchBroker):
            cluster.connection(77)


def test_the_second_transaction_protocol_is_recognised_by_its_feature(logs: Logs) -> None:
    with Cluster(logs.bootstrap_servers) as cluster:
        assert cluster.feature("transaction.version") == 2
        assert cluster.feature("no.such.feature") == 0


def test_topics_are_found_by_name_and_by_pattern(logs: Logs) -> None:
    first, second = logs.topic(), logs.topic()
    with Cluster(logs.bootstrap_servers) as cluster:
        # A refresh waits until the broker has the metadata of the topics.
        cluster.refresh([first, second])
        assert {first, second} <= set(cluster.topics())
        assert cluster.topics(f"{first}|nothing") == [first]
        assert cluster.topics(first[1:]) == []
        # A commit creates the group coordinator's topic, which is internal.
        cluster.commit("of-topics", {(first, 0): 0})
        assert "__consumer_offsets" not in cluster.topics()
        assert "__consumer_offsets" in cluster.topics(include_internal=True)
        with pytest.raises(SettingsError, match="is not a regular expression"):
            cluster.topics("(")


def test_a_topic_has_partitions_leaders_and_an_id(logs: Logs) -> None:
    topic = logs.topic(3)
    with Cluster(logs.bootstrap_servers) as cluster:
        assert cluster.partitions(topic) == [0, 1, 2]
        assert cluster.leader(topic, 2).broker_id == 1
        assert cluster.leader(topic, 2).epoch >= 0
        assert cluster.topic_id(topic) is not None


def test_a_missing_topic_or_partition_is_reported(logs: Logs) -> None:
    topic = logs.topic()
    started_at_s = time.monotonic()
    with Cluster(logs.bootstrap_servers, timeout_s=120) as cluster:
        with pytest.raises(BrokerError, match=r"topic no-such-topic: it does not exist .*Create it") as raised:
            cluster.partitions("no-such-topic")
        assert raised.value.code is ErrorCode.unknown_topic_or_partition
        with pytest.raises(BrokerError, match=f"topic {topic} has no partition 1: it has 1"):
            cluster.leader(topic, 1)
    assert time.monotonic() - started_at_s < 20


def test_offsets_are_listed_by_position_and_by_time(logs: Logs) -> None:
    topic = logs.topic(2)
    before_ms = int(time.time() * 1000)
    logs.fill(topic, [b"a", b"b", b"c"], partition=1)
    topic_partitions = [(topic, 0), (topic, 1)]
    with Cluster(logs.bootstrap_servers) as cluster:
        assert {
            topic_partition: at.offset
            for topic_partition, at in cluster.list_offsets(topic_partitions, EARLIEST).items()
        } == {
            (topic, 0): 0,
            (topic, 1): 0,
        }
        assert [at.offset for at in cluster.list_offsets(topic_partitions, LATEST).values()] == [0, 3]
        found = cluster.list_offsets(topic_partitions, before_ms)
        assert found[topic, 0] == OffsetAt(-1, -1, -1)
        assert found[topic, 1].offset == 0
        assert found[topic, 1].timestamp_ms >= before_ms
        assert cluster.list_offsets([], LATEST) == {}
        with pytest.raises(BrokerError, match="has no partition 2"):
            cluster.list_offsets([(topic, 2)], LATEST)


def test_committed_records_end_before_an_open_transaction(logs: Logs) -> None:
    topic = logs.topic()
    topic_partition = (topic, 0)
    logs.fill(topic, [b"a"])
    producer = Producer({"bootstrap.servers": logs.bootstrap_servers, "transactional.id": f"open-in-{topic}"})
    producer.init_transactions(30)
    producer.begin_transaction()
    producer.produce(topic, b"b", partition=0)
    assert producer.flush(30) == 0
    with Cluster(logs.bootstrap_servers) as cluster:
        assert cluster.list_offsets([topic_partition], LATEST)[topic_partition].offset == 2
        assert cluster.list_offsets([topic_partition], LATEST, read_committed=True)[topic_partition].offset == 1
        producer.commit_transaction(30)
        # A coordinator responds when it has decided; the marker, which takes an offset too, is written a moment later.
        wait_until(
            lambda: cluster.list_offsets([topic_partition], LATEST, read_committed=True)[topic_partition].offset == 3
        )


def test_a_group_reads_the_offsets_that_it_committed(logs: Logs) -> None:
    first, second = logs.topic(2), logs.topic()
    topic_partitions = [(first, 0), (first, 1), (second, 0)]
    with Cluster(logs.bootstrap_servers) as cluster:
        group = f"group-of-{first}"
        assert cluster.committed(group, topic_partitions) == {}
        cluster.commit(group, {(first, 1): 5, (second, 0): Position(7, 0, "a note")})
        assert cluster.committed(group, topic_partitions) == {
            (first, 1): Position(5),
            (second, 0): Position(7, 0, "a note"),
        }
        assert cluster.committed(group, [(first, 1)]) == {(first, 1): Position(5)}
        assert cluster.committed(group, []) == {}


def test_commits_to_a_recreated_topic_use_its_new_id(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    with Cluster(catchment_logs.bootstrap_servers) as cluster:
        cluster.commit("survivor", {(topic, 0): 5})
        catchment_logs.broker.delete_topic(topic)
        catchment_logs.broker.create_topic(topic)
        cluster.commit("survivor", {(topic, 0): 6})
        assert cluster.committed("survivor", [(topic, 0)]) == {(topic, 0): Position(6)}


def test_new_partitions_are_found_by_a_refresh(catchment_logs: CatchmentLogs) -> None:
    topic = catchment_logs.topic()
    with Cluster(catchment_logs.bootstrap_servers) as cluster:
        assert cluster.partitions(topic) == [0]
        catchment_logs.broker.delete_topic(topic)
        catchment_logs.broker.create_topic(topic, 2)
        assert cluster.partitions(topic) == [0]
        cluster.refresh([topic])
        assert cluster.partitions(topic) == [0, 1]
        assert cluster.leader(topic, 1) == Leader(1, 0)


def test_errors_survive_pickling() -> None:
    error = BrokerError(ErrorCode.topic_authorization_failed, "cannot read t")
    copied = pickle.loads(pickle.dumps(error))
    assert (type(copied), copied.code, str(copied)) == (BrokerError, error.code, str(error))
    assert str(error).startswith("cannot read t (TOPIC_AUTHORIZATION_FAILED). Ask for access")
