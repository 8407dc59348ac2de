"""Where a record lies. The client's types also allow for messages that are events; those have been sorted out by then."""

from confluent_kafka import Message


def place(message: Message) -> tuple[str, int, int]:
    """The topic, the partition and the offset."""
    topic, partition, offset = message.topic(), message.partition(), message.offset()
    if topic is None or partition is None or offset is None:
        raise ValueError("this message is not a record")
    return topic, partition, offset
