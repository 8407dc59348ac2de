"""Administration through the admin clients of confluent-kafka, kafka-python and aiokafka."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.admin import NewPartitions as AioNewPartitions
from aiokafka.admin import NewTopic as AioNewTopic
from aiokafka.admin.config_resource import ConfigResource as AioConfigResource
from aiokafka.admin.config_resource import ConfigResourceType as AioConfigResourceType
from aiokafka.admin.records_to_delete import RecordsToDelete
from aiokafka.structs import TopicPartition as AioTopicPartition
from confluent_kafka import KafkaError, KafkaException, TopicCollection, TopicPartition
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
    ResourceType,
)
from tests.compat.clients.client import TIMEOUT_S, Record
from tests.compat.clients.kafka_python import KafkaConfigResource, kafka_admin
from tests.compat.clients.kafka_python import TopicPartition as KafkaTopicPartition
from tests.compat.clients.librdkafka import Librdkafka

from catchment.testing.embedded import Broker

_MAX_TIMESTAMP = -3
# The records below bear times long past, and retention would take them away.
_KEPT = {"retention.ms": "-1"}


def _fill(broker: Broker, topic: str) -> None:
    timestamps_ms = [1_700_000_000_000 + number for number in (0, 1, 5, 3, 4)]
    Librdkafka(broker.bootstrap_servers).write(topic, [Record(b"value")] * 5, timestamps_ms=timestamps_ms)


@pytest.fixture(scope="module")
def librdkafka(broker: Broker) -> AdminClient:
    return AdminClient({"bootstrap.servers": broker.bootstrap_servers})


def test_librdkafka_creates_grows_describes_and_deletes_topics(librdkafka: AdminClient) -> None:
    name = "librdkafka-topic"
    librdkafka.create_topics([NewTopic(name, 2, 1, config={"retention.ms": "1000"})])[name].result(TIMEOUT_S)
    with pytest.raises(KafkaException) as refused:
        librdkafka.create_topics([NewTopic(name, 2, 1)])[name].result(TIMEOUT_S)
    assert refused.value.args[0].code() == KafkaError.TOPIC_ALREADY_EXISTS
    librdkafka.create_partitions([NewPartitions(name, 4)])[name].result(TIMEOUT_S)
    described = librdkafka.describe_topics(TopicCollection([name]))[name].result(TIMEOUT_S)
    assert [partition.id for partition in described.partitions] == [0, 1, 2, 3]
    assert all(partition.leader.id == 1 for partition in described.partitions)
    librdkafka.delete_topics([name])[name].result(TIMEOUT_S)
    assert name not in librdkafka.list_topics(timeout=TIMEOUT_S).topics


def test_librdkafka_describes_and_alters_configs(librdkafka: AdminClient, make_topic: Callable[..., str]) -> None:
    topic = make_topic(settings={"retention.ms": 1000})

    def described() -> dict[str, ConfigEntry]:
        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries: dict[str, ConfigEntry] = librdkafka.describe_configs([resource])[resource].result(TIMEOUT_S)
        return entries

    def alter(*entries: ConfigEntry) -> None:
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=list(entries))
        librdkafka.incremental_alter_configs([resource])[resource].result(TIMEOUT_S)

    assert described()["retention.ms"].value == "1000"
    assert ConfigSource(described()["retention.ms"].source) == ConfigSource.DYNAMIC_TOPIC_CONFIG
    alter(
        ConfigEntry("max.message.bytes", "2000", incremental_operation=AlterConfigOpType.SET),
        ConfigEntry("retention.ms", None, incremental_operation=AlterConfigOpType.DELETE),
        ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
    )
    assert described()["max.message.bytes"].value == "2000"
    assert described()["retention.ms"].is_default
    assert described()["cleanup.policy"].value == "delete,compact"
    alter(ConfigEntry("cleanup.policy", "delete", incremental_operation=AlterConfigOpType.SUBTRACT))
    assert described()["cleanup.policy"].value == "compact"
    legacy = ConfigResource(ResourceType.TOPIC, topic, set_config={"retention.ms": "5000"})
    with pytest.deprecated_call():
        librdkafka.alter_configs([legacy])[legacy].result(TIMEOUT_S)
    # The old call replaces all that the topic overrides.
    assert described()["retention.ms"].value == "5000"
    assert described()["max.message.bytes"].is_default


def test_librdkafka_describes_the_broker_and_the_cluster(librdkafka: AdminClient) -> None:
    resource = ConfigResource(ResourceType.BROKER, "1")
    entries = librdkafka.describe_configs([resource])[resource].result(TIMEOUT_S)
    assert entries["log.dirs"].is_read_only
    assert entries["auto.create.topics.enable"].value == "false"
    cluster = librdkafka.describe_cluster().result(TIMEOUT_S)
    assert cluster.controller.id == 1
    assert [node.id for node in cluster.nodes] == [1]


def test_librdkafka_deletes_records_and_lists_offsets(
    librdkafka: AdminClient, broker: Broker, make_topic: Callable[..., str]
) -> None:
    topic = make_topic(settings=_KEPT)
    _fill(broker, topic)
    partition = TopicPartition(topic, 0)

    def offset(spec: OffsetSpec) -> int:
        found: int = librdkafka.list_offsets({partition: spec})[partition].result(TIMEOUT_S).offset
        return found

    assert offset(OffsetSpec.max_timestamp()) == 2
    assert offset(OffsetSpec.for_timestamp(1_700_000_000_001)) == 1
    deleted = librdkafka.delete_records([TopicPartition(topic, 0, 2)])
    assert next(iter(deleted.values())).result(TIMEOUT_S).low_watermark == 2
    assert (offset(OffsetSpec.earliest()), offset(OffsetSpec.latest())) == (2, 5)


def test_kafka_python_administers(broker: Broker) -> None:
    name = "kafka-python-topic"
    with kafka_admin(broker.bootstrap_servers) as admin:
        admin.create_topics({name: {"num_partitions": 2, "replication_factor": 1, "configs": _KEPT}})
        admin.create_partitions({name: 3})
        (topic,) = admin.describe_topics([name])
        assert len(topic["partitions"]) == 3
        (partitioned,) = admin.describe_topic_partitions([name])["topics"]
        assert len(partitioned["partitions"]) == 3
        admin.alter_configs([KafkaConfigResource("TOPIC", name, {"max.message.bytes": "2000"})])
        configs = admin.describe_configs([KafkaConfigResource("TOPIC", name)])["topic"][name]
        assert (configs["retention.ms"]["value"], configs["max.message.bytes"]["value"]) == ("-1", "2000")
        _fill(broker, name)
        partition = KafkaTopicPartition(name, 0)
        assert admin.list_partition_offsets({partition: _MAX_TIMESTAMP})[partition].offset == 2
        assert admin.delete_records({partition: 2})[partition]["low_watermark"] == 2
        assert name in admin.list_topics()
        assert admin.describe_cluster()["controller_id"] == 1
        assert admin.describe_log_dirs()
        admin.delete_topics([name])
        assert name not in admin.list_topics()


async def test_aiokafka_administers(broker: Broker) -> None:
    name = "aiokafka-topic"
    admin = AIOKafkaAdminClient(bootstrap_servers=broker.bootstrap_servers)
    await admin.start()
    try:
        await admin.create_topics([AioNewTopic(name, 2, 1, topic_configs=_KEPT)])
        await admin.create_partitions({name: AioNewPartitions(3)})
        (topic,) = await admin.describe_topics([name])
        assert len(topic["partitions"]) == 3
        resource = AioConfigResource(AioConfigResourceType.TOPIC, name, configs={**_KEPT, "max.message.bytes": "2000"})
        await admin.alter_configs([resource])
        (answer,) = await admin.describe_configs([AioConfigResource(AioConfigResourceType.TOPIC, name)])
        values = {entry[0]: entry[1] for entry in answer.resources[0][4]}
        assert (values["retention.ms"], values["max.message.bytes"]) == ("-1", "2000")
        _fill(broker, name)
        partition = AioTopicPartition(name, 0)
        assert await admin.delete_records({partition: RecordsToDelete(3)}) == {partition: 3}
        assert (await admin.describe_cluster())["controller_id"] == 1
        await admin.delete_topics([name])
        assert name not in await admin.list_topics()
    finally:
        await admin.close()
