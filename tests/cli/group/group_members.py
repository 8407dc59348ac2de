"""Real members of groups, for the tests of the commands that look at groups."""

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from confluent_kafka import Consumer
from tests.waiting import wait_until

_NUMBERS = count()


def new_group() -> str:
    return f"group-{next(_NUMBERS)}"


@contextmanager
def member_of(group: str, topic: str, bootstrap_servers: str, **settings: Any) -> Iterator[Any]:
    """A consumer that has got its partitions, and leaves at the end."""
    consumer: Any = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "log_level": 0,
            **{name.replace("_", "."): value for name, value in settings.items()},
        }
    )
    try:
        consumer.subscribe([topic])

        def has_partitions() -> bool:
            consumer.poll(0.1)
            return bool(consumer.assignment())

        wait_until(has_partitions, f"there is no member of {group} with partitions")
        yield consumer
    finally:
        consumer.close()
