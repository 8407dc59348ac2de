"""A member of a consumer group that prints its assignments and records, and commits after each poll.

    python -m tests.compat.apps.group_member CLIENT BOOTSTRAP-SERVERS GROUP TOPIC

Every line that it prints is one event in JSON. Records are printed before they are committed, so that a test that kills it has at
least the records that the group has committed.
"""

from __future__ import annotations

import json
import signal
import sys
from typing import Any

from aiokafka.errors import KafkaError as AioKafkaError
from confluent_kafka import KafkaException
from tests.compat.clients.group_consumers import GROUP_CONSUMERS
from tests.compat.clients.kafka_python import KafkaError

_REFUSALS = (AioKafkaError, KafkaError, KafkaException)


def tell(**event: object) -> None:
    sys.stdout.write(json.dumps(event) + "\n")
    sys.stdout.flush()


def main(client: str, bootstrap_servers: str, group: str, topic: str) -> None:
    is_stopped = False

    def stop(number: int, frame: object) -> None:
        nonlocal is_stopped
        is_stopped = True

    signal.signal(signal.SIGTERM, stop)
    consumer_class: Any = GROUP_CONSUMERS[client]
    consumer = consumer_class(bootstrap_servers, group, topic)
    assignment: set[int] = set()
    while not is_stopped:
        values = consumer.poll()
        if consumer.assignment() != assignment:
            assignment = consumer.assignment()
            tell(assigned=sorted(assignment))
        if values:
            tell(read=[int(value) for value in values])
            try:
                consumer.commit()
            except _REFUSALS as refusal:
                # It was away for too long, or the broker was: another member may read the same records again.
                tell(refused=str(refusal))
    consumer.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
