"""Committed reads of topics after all transactions have ended."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import pyarrow
from tests.waiting import wait_until

from catchment.client.arrow_api import read_arrow
from catchment.client.cluster import Cluster
from catchment.client.offsets import LATEST
from catchment.client.topic_metadata import TopicPartition


def settle(servers: str, topic: str, partitions: Iterable[int] | None = None) -> None:
    """Wait until no transaction is open: brokers respond to EndTxn before all partitions have their markers."""
    with Cluster(servers) as cluster:
        numbers = cluster.partitions(topic) if partitions is None else partitions
        topic_partitions: list[TopicPartition] = [(topic, number) for number in numbers]
        wait_until(
            lambda: (
                cluster.list_offsets(topic_partitions, LATEST, read_committed=True)
                == cluster.list_offsets(topic_partitions, LATEST)
            ),
            f"a transaction stays open in {topic}",
        )


def read_settled(topic: str, servers: str, columns: Sequence[str]) -> pyarrow.Table:
    """The committed records of a topic whose writers have ended."""
    settle(servers, topic)
    return read_arrow(topic, servers, columns=columns)
