"""Real members of groups, for the tests of the commands that look at groups."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

from confluent_kafka import Consumer

DEADLINE_S = 30.0
_NUMBERS = count()


def new_group() -> str:
    return f"group-{next(_NUMBERS)}"


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline_s = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < deadline_s, f"never came to be: {what}"


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

        wait_until(has_partitions, f"a member of {group} with partitions")
        yield consumer
    finally:
        consumer.close()
