"""Exactly once, from topic to topic: the results and the position are one Kafka transaction.

Either both are written or neither, whatever crashes. A consumer that reads the results with `isolation.level=read_committed` sees
each of them once. The transactional id is fixed, so a restarted worker first ends what its predecessor left open, and a
predecessor that was wrongly declared dead can commit nothing any more.
"""

import options
from confluent_kafka import Consumer, KafkaException, Message, Producer, TopicPartition
from records import location

RECORDS_A_TRANSACTION = 10
"""Few, so that one can watch it; some thousands cost hardly more."""
TIMEOUT_S = 60
"""The broker may be down for a while. If it is down for longer, this program ends, and its supervisor restarts it."""


def transform(value: bytes | None) -> bytes:
    """The work: here, capitals."""
    return (value or b"").upper()


def copy(consumer: Consumer, producer: Producer, messages: list[Message], output_topic: str) -> None:
    """Send the results of these records and the position after them, all or nothing."""
    positions: dict[tuple[str, int], int] = {}
    producer.begin_transaction()
    for message in messages:
        topic, partition, offset = location(message)
        producer.produce(output_topic, transform(message.value()), message.key(), partition=partition)
        positions[topic, partition] = offset + 1
    producer.send_offsets_to_transaction(
        [TopicPartition(topic, partition, offset) for (topic, partition), offset in positions.items()],
        consumer.consumer_group_metadata(),
        TIMEOUT_S,
    )
    producer.commit_transaction(TIMEOUT_S)


def rewind(consumer: Consumer) -> None:
    """Go back to what is committed: the records of an aborted transaction are due again."""
    for position in consumer.committed(consumer.assignment()):
        consumer.seek(TopicPartition(position.topic, position.partition, max(position.offset, 0)))


def main() -> None:
    chosen = options.parse(__doc__, "the topic to write to, with as many partitions as the one that is read")
    producer = Producer({"bootstrap.servers": chosen.bootstrap_servers, "transactional.id": f"{chosen.group}-worker-1"})
    producer.init_transactions(TIMEOUT_S)
    consumer = Consumer(
        {
            "bootstrap.servers": chosen.bootstrap_servers,
            "group.id": chosen.group,
            # A name of its own gives a restarted worker its old partitions back at once.
            "group.instance.id": "worker-1",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
        }
    )
    consumer.subscribe([chosen.topic])
    try:
        while True:
            messages = [one for one in consumer.consume(RECORDS_A_TRANSACTION, timeout=0.2) if not one.error()]
            if not messages:
                continue
            try:
                copy(consumer, producer, messages, chosen.output)
            except KafkaException as exception:
                # Some errors end the transaction, others the producer: those end this program, and a new start goes on.
                if not exception.args[0].txn_requires_abort():
                    raise
                producer.abort_transaction(TIMEOUT_S)
                rewind(consumer)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
