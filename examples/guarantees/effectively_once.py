"""Effectively once: at least once, into a store that takes every record only once.

The work is repeated after a crash, as in `at_least_once.py`, but a repeat changes nothing: the store knows each record by
what makes it unique, here the topic, the partition and the offset. A key of the business, such as an order number, does as
well, and also catches what a producer sends twice. Right for most stores: an upsert is all it takes.
"""

import sqlite3

import options
from confluent_kafka import Consumer, KafkaException, Message


def open_store(path: str) -> sqlite3.Connection:
    store = sqlite3.connect(path)
    store.execute(
        "CREATE TABLE IF NOT EXISTS results (topic TEXT, partition INTEGER, record_offset INTEGER, value TEXT,"
        " PRIMARY KEY (topic, partition, record_offset))"
    )
    return store


def deliver(store: sqlite3.Connection, message: Message) -> None:
    """The work, done so that doing it again changes nothing."""
    with store:
        store.execute(
            "INSERT INTO results VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING",
            (message.topic(), message.partition(), message.offset(), (message.value() or b"").decode()),
        )


def main() -> None:
    chosen = options.parse(__doc__, "the SQLite file to write to")
    store = open_store(chosen.output)
    consumer = Consumer(
        {
            "bootstrap.servers": chosen.bootstrap_servers,
            "group.id": chosen.group,
            # A name of its own gives a restarted worker its old partitions back at once.
            "group.instance.id": "worker-1",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.subscribe([chosen.topic])
    try:
        while True:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if error := message.error():
                raise KafkaException(error)
            deliver(store, message)
            consumer.commit(message=message, asynchronous=False)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
