"""Where a record is. The client's types also allow messages that are events; those are handled before."""

from confluent_kafka import Message


def location(message: Message) -> tuple[str, int, int]:
    """The topic, the partition and the offset."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise ValueError("this message is not a record")
    return topic, partition, offset
