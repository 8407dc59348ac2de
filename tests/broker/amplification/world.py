"""The state before the first large request: a topic with records, and field values with which requests are not rejected early."""

from __future__ import annotations

from typing import Final
from uuid import UUID

from confluent_kafka import Producer, TopicCollection
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.amplification.frames import World

TOPIC: Final = "amplified"
GROUP: Final = "amplified-group"
PARTITIONS: Final = 4
SETTINGS: Final = {"auto.create.topics.enable": "false", "group.initial.rebalance.delay.ms": "0"}
_TIMEOUT_S: Final = 150.0
_TOPIC_RESOURCE: Final = 2
_NUMBERS: Final = {
    "acks": 1,
    "max_wait": 1,
    "timeout": 1000,
    "max_bytes": 1 << 20,
    "partition_max_bytes": 1 << 20,
    "resource_type": _TOPIC_RESOURCE,
    "session_epoch": -1,
    "session_timeout": 6000,
    "rebalance_timeout": 6000,
    "transaction_timeout": 6000,
    "generation_id": -1,
    "generation_id_or_member_epoch": -1,
    "response_partition_limit": 2000,
    "num_partitions": 1,
    "replication_factor": 1,
    # Nothing is really created: the files of ten thousand topics would be measured with it.
    "validate_only": 1,
}


def make_world(bootstrap_servers: str) -> World:
    admin = AdminClient({"bootstrap.servers": bootstrap_servers})
    admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(_TIMEOUT_S)
    producer = Producer({"bootstrap.servers": bootstrap_servers})
    for partition in range(PARTITIONS):
        producer.produce(TOPIC, b"value", b"key", partition)
    assert producer.flush(_TIMEOUT_S) == 0
    topic_id = admin.describe_topics(TopicCollection([TOPIC]))[TOPIC].result(_TIMEOUT_S).topic_id
    high, low = (
        bits % (1 << 64) for bits in (topic_id.get_most_significant_bits(), topic_id.get_least_significant_bits())
    )
    return World(TOPIC, UUID(int=high << 64 | low), GROUP, _NUMBERS, {"member_id": "m", "config": "retention.ms"})
