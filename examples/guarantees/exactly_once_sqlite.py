"""Exactly once, into a database: the results and the position are one transaction of SQLite.

The consumer keeps its own position, in the database, and asks the broker for records from there; no group takes part. So
results and position can never disagree, whatever crashes when. Several workers share the partitions between them, each
partition with one worker.
"""

import sqlite3

import options
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from records import location


def open_store(path: str) -> sqlite3.Connection:
    store = sqlite3.connect(path)
    # The position must not come back from a power loss ahead of, or behind, its results: SQLite syncs both as one.
    store.execute("PRAGMA synchronous = FULL")
    with store:
        store.execute("CREATE TABLE IF NOT EXISTS results (partition INTEGER, record_offset INTEGER, value TEXT)")
        store.execute("CREATE TABLE IF NOT EXISTS positions (partition INTEGER PRIMARY KEY, next_offset INTEGER)")
    return store


def positions(store: sqlite3.Connection, consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Where to go on in every partition of the topic: at the start in those that are new."""
    known = dict(store.execute("SELECT partition, next_offset FROM positions").fetchall())
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    return [TopicPartition(topic, number, known.get(number, 0)) for number in partitions]


def deliver(store: sqlite3.Connection, message: Message) -> None:
    """The work and the position after it, all or nothing."""
    _, partition, offset = location(message)
    with store:
        store.execute("INSERT INTO results VALUES (?, ?, ?)", (partition, offset, (message.value() or b"").decode()))
        store.execute("INSERT OR REPLACE INTO positions VALUES (?, ?)", (partition, offset + 1))


def main() -> None:
    chosen = options.parse(__doc__, "the SQLite file to write to")
    store = open_store(chosen.output)
    consumer = Consumer(
        {
            "bootstrap.servers": chosen.bootstrap_servers,
            # The client wants a name, but nothing is ever committed under it.
            "group.id": chosen.group,
            "enable.auto.commit": False,
            "auto.offset.reset": "error",
            "isolation.level": "read_committed",
        }
    )
    consumer.assign(positions(store, consumer, chosen.topic))
    try:
        while True:
            message = consumer.poll(1.0)
            if message is None:
                continue
            if error := message.error():
                raise KafkaException(error)
            deliver(store, message)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
