"""What the topics of all coordinators have in common: sizes that are asked for, within what is possible."""

from catchment.cluster.metadata import MetadataImage
from catchment.settings.broker import BrokerSettings
from catchment.settings.definitions.topics import SMALLEST_SEGMENT_BYTES


def replication_factor(settings: BrokerSettings, name: str, image: MetadataImage) -> int:
    """As many replicas as the setting says, but no more than there are brokers: one broker alone serves the topic too."""
    return min(settings.integer(name), max(len(image.brokers), 1))


def segment_bytes(settings: BrokerSettings, name: str) -> str:
    """The size that the setting says, but no smaller than a topic may have it: Kafka's definition allows one byte."""
    return str(max(settings.integer(name), SMALLEST_SEGMENT_BYTES))
