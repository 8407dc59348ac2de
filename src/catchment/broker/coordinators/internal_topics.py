"""The internal topics of the coordinators, with the settings that Kafka gives them."""

from __future__ import annotations

from typing import Final

from catchment.cluster.metadata import MetadataImage
from catchment.cluster.new_topic import NewTopic
from catchment.settings.broker import BrokerSettings
from catchment.settings.definitions.topics import SMALLEST_SEGMENT_BYTES


def replication_factor(settings: BrokerSettings, name: str, image: MetadataImage) -> int:
    """The replication factor of the setting, but at most the number of brokers: a single broker serves the topic too."""
    return min(settings.integer(name), max(len(image.brokers), 1))


def segment_bytes(settings: BrokerSettings, name: str) -> str:
    """The size of the setting, but at least the minimum of a topic: Kafka's setting allows one byte."""
    return str(max(settings.integer(name), SMALLEST_SEGMENT_BYTES))


OFFSETS_TOPIC: Final = "__consumer_offsets"


def offsets_topic(settings: BrokerSettings, image: MetadataImage) -> NewTopic:
    """The topic of groups and offsets, as Kafka creates it, but with at most as many replicas as brokers."""
    replicas = replication_factor(settings, "offsets.topic.replication.factor", image)
    return NewTopic(
        OFFSETS_TOPIC,
        settings.integer("offsets.topic.num.partitions"),
        replicas,
        settings={
            "cleanup.policy": "compact",
            "compression.type": "producer",
            "segment.bytes": segment_bytes(settings, "offsets.topic.segment.bytes"),
        },
    )


TRANSACTIONS_TOPIC: Final = "__transaction_state"


def transactions_topic(settings: BrokerSettings, image: MetadataImage) -> NewTopic:
    """The topic of transactions, as Kafka creates it, but with at most as many replicas as brokers."""
    replicas = replication_factor(settings, "transaction.state.log.replication.factor", image)
    min_isr = min(settings.integer("transaction.state.log.min.isr"), replicas)
    return NewTopic(
        TRANSACTIONS_TOPIC,
        settings.integer("transaction.state.log.num.partitions"),
        replicas,
        settings={
            "cleanup.policy": "compact",
            "compression.type": "uncompressed",
            "min.insync.replicas": str(min_isr),
            "segment.bytes": segment_bytes(settings, "transaction.state.log.segment.bytes"),
            "unclean.leader.election.enable": "false",
        },
    )


SHARE_STATE_TOPIC: Final = "__share_group_state"


def share_state_topic(settings: BrokerSettings, image: MetadataImage) -> NewTopic:
    """The topic of share states, as Kafka creates it, but with at most as many replicas as brokers."""
    replicas = replication_factor(settings, "share.coordinator.state.topic.replication.factor", image)
    min_in_sync = min(settings.integer("share.coordinator.state.topic.min.isr"), replicas)
    return NewTopic(
        SHARE_STATE_TOPIC,
        settings.integer("share.coordinator.state.topic.num.partitions"),
        replicas,
        settings={
            "cleanup.policy": "delete",
            "compression.type": "producer",
            "min.insync.replicas": str(min_in_sync),
            "retention.ms": "-1",
            "segment.bytes": segment_bytes(settings, "share.coordinator.state.topic.segment.bytes"),
        },
    )
