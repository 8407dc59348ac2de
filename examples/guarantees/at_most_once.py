"""At most once: the position is committed first, the work is done after.

A crash between the two loses the record: it is never handed out again. No record is ever worked on twice. Right where a
missing record does less harm than a repeated one, such as a push message.
"""

import os

import options
from confluent_kafka import Consumer, KafkaException, Message


def deliver(output: int, message: Message) -> None:
    """The work: here, a line at the end of a file."""
    value = (message.value() or b"").decode()
    os.write(output, f"{message.partition()} {message.offset()} {value}\n".encode())


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
            consumer.commit(message=message, asynchronous=False)
            deliver(output, message)
    finally:
        consumer.close()


if __name__ == "__main__":
    main()
