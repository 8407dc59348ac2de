"""The interface of workloads, and a new topic for each run."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from confluent_kafka.admin import AdminClient, NewTopic

from catchment.bench.measure import Measure
from catchment.bench.target import Target

_TOPIC_TIMEOUT_SECONDS = 60
_numbers = itertools.count()


class Workload(Protocol):
    """One kind of load."""

    @property
    def name(self) -> str:
        """What `--workload` matches."""

    @property
    def measures(self) -> Sequence[Measure]:
        """What a run can return, in the order of the table."""

    def run(self, target: Target) -> dict[str, float]:
        """Run the load on the server once. Measures that this server does not support are omitted."""


@contextmanager
def fresh_topic(target: Target, partitions: int) -> Iterator[str]:
    """A topic for this run, deleted afterwards so that the next run finds the same disk."""
    name = f"bench-{next(_numbers)}"
    admin = AdminClient({"bootstrap.servers": target.server.bootstrap_servers, "log_level": 0})
    admin.create_topics([NewTopic(name, partitions, 1)])[name].result(_TOPIC_TIMEOUT_SECONDS)
    try:
        yield name
    finally:
        if target.server.deletes_topics:
            admin.delete_topics([name])[name].result(_TOPIC_TIMEOUT_SECONDS)
