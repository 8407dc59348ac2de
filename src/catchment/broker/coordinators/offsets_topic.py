"""The topic that keeps groups and offsets, and the settings that groups obey."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from catchment.broker.coordinators.internal_topics import replication_factor, segment_bytes
from catchment.cluster.metadata import MetadataImage
from catchment.cluster.new_topic import NewTopic
from catchment.settings.broker import BrokerSettings

if TYPE_CHECKING:
    from catchment.coordination.groups.state import GroupLimits

OFFSETS_TOPIC: Final = "__consumer_offsets"


def offsets_topic(settings: BrokerSettings, image: MetadataImage) -> NewTopic:
    """The topic as Kafka makes it, but with no more replicas than there are brokers: one broker alone serves groups too."""
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


def group_limits(settings: BrokerSettings) -> GroupLimits:
    from catchment.coordination.groups.state import GroupLimits

    return GroupLimits(
        min_session_timeout_ms=settings.integer("group.min.session.timeout.ms"),
        max_session_timeout_ms=settings.integer("group.max.session.timeout.ms"),
        max_size=settings.integer("group.max.size"),
        initial_rebalance_delay_ms=settings.integer("group.initial.rebalance.delay.ms"),
        offset_metadata_max_bytes=settings.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=settings.integer("offsets.retention.minutes") * 60_000,
    )
