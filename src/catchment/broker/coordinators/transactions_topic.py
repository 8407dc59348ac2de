"""The topic that keeps transactions, and the settings that they obey."""

from typing import Final

from catchment.broker.coordinators.internal_topics import replication_factor, segment_bytes
from catchment.cluster.metadata import MetadataImage
from catchment.cluster.new_topic import NewTopic
from catchment.coordination.transactions.commands import TransactionLimits
from catchment.settings.broker import BrokerSettings

TRANSACTIONS_TOPIC: Final = "__transaction_state"


def transactions_topic(settings: BrokerSettings, image: MetadataImage) -> NewTopic:
    """The topic as Kafka makes it, but with no more replicas than there are brokers."""
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


def transaction_limits(settings: BrokerSettings) -> TransactionLimits:
    return TransactionLimits(
        max_timeout_ms=settings.integer("transaction.max.timeout.ms"),
        expiration_ms=settings.integer("transactional.id.expiration.ms"),
    )
