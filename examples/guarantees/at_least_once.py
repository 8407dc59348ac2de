"""At least once: the work is done first, the position is committed after.

A crash between the two repeats the record: the next start gets it again. No record is lost. Right where the work may be
done twice without harm, or where a consumer downstream removes the duplicates.
"""

import os

import options
from confluent_kafka import Consumer, KafkaException, Message


def deliver(output: int, message: Message) -> None:
    """The work: here, a line at the end of a file, on the disk before the position moves."""
    value = (message.value() or b"").decode()
    os.write(output, f"{message.partition()} {message.offset()} {value}\n".encode())
    os.fsync(output)


def main() -> None:
    chosen = options.parse(__doc__, "the file to append to")
    output = os.open(chosen.output, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)
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
            deliver(output, message)
            consumer.commit(message=message, asynchronous=False)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
