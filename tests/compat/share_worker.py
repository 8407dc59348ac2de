"""A share consumer in a process of its own: it prints the records that it has acquired, and never acknowledges them.

`python -m tests.compat.share_worker SERVERS GROUP TOPIC`, to be killed.
"""

from __future__ import annotations

import sys

from confluent_kafka import ShareConsumer


def main() -> None:
    servers, group, topic = sys.argv[1:]
    consumer = ShareConsumer(
        {"bootstrap.servers": servers, "group.id": group, "share.acknowledgement.mode": "explicit"}
    )
    consumer.subscribe([topic])
    while not (messages := consumer.poll(1.0)):
        pass
    for message in messages:
        sys.stdout.write(f"{(message.value() or b'').decode()}\n")
    sys.stdout.flush()
    sys.stdin.read()


if __name__ == "__main__":
    main()
