"""Exactly once, into a database on the network: the results and the position are one transaction of PostgreSQL.

As in `exactly_once_sqlite.py`, the consumer keeps its own position in the database. Since there is a network between them, a
worker that was wrongly declared dead might still write: so each start takes a higher epoch, and a transaction goes through only
while its worker's epoch is the highest. Needs `pip install 'psycopg[binary]'`.
"""

import options
import psycopg
from confluent_kafka import Consumer, KafkaException, Message, TopicPartition
from records import location


class Superseded(Exception):
    """Another worker has taken over."""


def open_store(address: str) -> tuple[psycopg.Connection, int]:
    """The database, and the epoch of this start."""
    store = psycopg.connect(address)
    with store.transaction():
        store.execute("CREATE TABLE IF NOT EXISTS results (partition INT, record_offset BIGINT, value TEXT)")
        store.execute("CREATE TABLE IF NOT EXISTS positions (partition INT PRIMARY KEY, next_offset BIGINT)")
        store.execute("CREATE TABLE IF NOT EXISTS worker (id INT PRIMARY KEY, epoch INT)")
        row = store.execute(
            "INSERT INTO worker VALUES (1, 1) ON CONFLICT (id) DO UPDATE SET epoch = worker.epoch + 1 RETURNING epoch"
        ).fetchone()
    assert row is not None
    return store, row[0]


def positions(store: psycopg.Connection, consumer: Consumer, topic: str) -> list[TopicPartition]:
    """Where to go on in every partition of the topic: at the start in those that are new."""
    with store.transaction():
        known: dict[int, int] = dict(store.execute("SELECT partition, next_offset FROM positions").fetchall())
    partitions = consumer.list_topics(topic, timeout=30).topics[topic].partitions
    return [TopicPartition(topic, number, known.get(number, 0)) for number in partitions]


def deliver(store: psycopg.Connection, epoch: int, message: Message) -> None:
    """The work and the position after it, all or nothing, and only from the newest worker."""
    _, partition, offset = location(message)
    with store.transaction():
        newest = store.execute("SELECT epoch FROM worker WHERE id = 1 FOR SHARE").fetchone()
        if newest != (epoch,):
            raise Superseded(f"epoch {epoch} has been followed by {newest}")
        store.execute("INSERT INTO results VALUES (%s, %s, %s)", (partition, offset, (message.value() or b"").decode()))
        store.execute(
            "INSERT INTO positions VALUES (%s, %s) ON CONFLICT (partition) DO UPDATE SET next_offset = EXCLUDED.next_offset",
            (partition, offset + 1),
        )


def main() -> None:
    chosen = options.parse(__doc__, "the database, such as postgresql://user@127.0.0.1/name")
    store, epoch = open_store(chosen.output)
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
            deliver(store, epoch, message)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
