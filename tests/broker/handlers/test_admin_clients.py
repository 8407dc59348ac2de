"""The administration of topics through the admin clients that people use."""

import pytest
from confluent_kafka import KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic, OffsetSpec
from tests.broker.handlers.wire import produce

from catchment.testing.embedded import Broker

_DEADLINE_S = 150


def test_librdkafkas_admin_client_creates_grows_empties_and_deletes_a_topic(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    created = admin.create_topics([NewTopic("a", num_partitions=2, config={"retention.ms": "60000"})])
    created["a"].result(_DEADLINE_S)
    admin.create_partitions([NewPartitions("a", 3)])["a"].result(_DEADLINE_S)
    described = admin.describe_topics(TopicCollection(["a"]))["a"].result(_DEADLINE_S)
    assert [partition.leader.id for partition in described.partitions] == [1, 1, 1]
    produce(broker, "a", [b"x"] * 4)
    emptied = admin.delete_records([TopicPartition("a", 0, 3)])
    assert next(iter(emptied.values())).result(_DEADLINE_S).low_watermark == 3
    first = admin.list_offsets({TopicPartition("a", 0): OffsetSpec.earliest()})
    assert next(iter(first.values())).result(_DEADLINE_S).offset == 3
    admin.delete_topics(["a"])["a"].result(_DEADLINE_S)
    assert "a" not in admin.list_topics(timeout=_DEADLINE_S).topics


def test_librdkafkas_admin_client_describes_the_cluster(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    cluster = admin.describe_cluster().result(_DEADLINE_S)
    assert [node.id for node in cluster.nodes] == [1]
    assert cluster.controller.id == 1
    assert len(cluster.cluster_id) == 22


def test_librdkafka_shows_our_reasons(broker: Broker) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for topic, reason in (
        (NewTopic("a", 1, 3), "cannot be reached because only 1 broker"),
        (NewTopic("a", 1, config={"no.such.setting": "1"}), "no.such.setting"),
        (NewTopic("a b", 1), "other than ASCII alphanumerics"),
    ):
        future = next(iter(admin.create_topics([topic]).values()))
        error = future.exception(_DEADLINE_S)
        assert isinstance(error, KafkaException)
        assert reason in str(error)


@pytest.mark.filterwarnings("ignore:.*Use files:DeprecationWarning")
def test_kafka_pythons_admin_client_creates_describes_and_deletes(broker: Broker) -> None:
    # Its import warns of its own use of importlib, so it comes only where that is not held against us.
    from kafka.admin import KafkaAdminClient
    from kafka.admin import NewTopic as KafkaPythonNewTopic

    admin = KafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    try:
        admin.create_topics([KafkaPythonNewTopic("a", num_partitions=2, replication_factor=1)])
        assert "a" in admin.list_topics()
        (topic,) = admin.describe_topics(["a"])
        assert len(topic["partitions"]) == 2
        assert admin.describe_cluster()["cluster_id"]
        admin.delete_topics(["a"])
        assert "a" not in admin.list_topics()
    finally:
        admin.close()
