"""A cluster as a client sees it: its brokers, the leaders of partitions, and the offsets of partitions and groups.

The metadata of a topic is cached until `refresh`, so a call for every partition costs one request for the topic. A cluster
belongs to one thread of one process.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Iterable, Mapping
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.client import offsets
from catchment.client.errors import BrokerError, SettingsError, raise_for
from catchment.client.network.brokers import GROUP, TRANSACTION, Brokers, Coordinator, Target
from catchment.client.network.deadline import Deadline
from catchment.client.topic_metadata import NO_LEADER, Leader, Topic, TopicPartition, read_topic

__all__ = ["GROUP", "TRANSACTION", "Cluster", "Coordinator", "Leader", "Target"]

# It takes a moment until every broker has the metadata of a new topic.
_NEW_TOPIC_S: Final = 1.0
_SETTLING: Final = frozenset({ErrorCode.unknown_topic_or_partition, ErrorCode.leader_not_available})


class Cluster(Brokers):
    """The brokers of one cluster, its topics and its groups."""

    def __init__(
        self, bootstrap_servers: str, settings: Mapping[str, str] | None = None, *, timeout_s: float = 30
    ) -> None:
        """`settings` have the names of Kafka's clients. A call takes at most `timeout_s` unless it says otherwise."""
        super().__init__(bootstrap_servers, settings or {}, timeout_s)
        self._topics: dict[str, Topic] = {}
        self._heard_at_s: dict[str, float] = {}

    def topics(self, pattern: str | None = None, *, include_internal: bool = False) -> list[str]:
        """The names of all topics, or of those that a regular expression matches as a whole."""
        try:
            matches = re.compile(pattern or ".*").fullmatch
        except re.error as error:
            raise SettingsError(f"{pattern!r} is not a regular expression: {error}") from error
        response = self.read_metadata(None, self.deadline())
        return sorted(
            one.name for one in response.topics if (include_internal or not one.is_internal) and matches(one.name)
        )

    def partitions(self, topic: str, *, create: bool = False, max_age_s: float = math.inf) -> list[int]:
        """The partitions of a topic, from metadata that is at most `max_age_s` old. `refresh` says what `create` does."""
        if time.monotonic() - self._heard_at_s.get(topic, -math.inf) > max_age_s:
            self.refresh([topic], create=create)
        return list(self._topic(topic, create=create).leaders)

    def topic_id(self, topic: str) -> UUID | None:
        """The id of a topic; None from brokers before Kafka 2.8."""
        return self._topic(topic).topic_id

    def leader(self, topic: str, partition: int) -> Leader:
        """The leader of a partition, from cached metadata. Waits for an election if there is none."""
        backoff = self.backoff(self.deadline())
        if partition not in self._topic(topic).leaders:
            self.refresh([topic])
        while True:
            try:
                return self.known_leader(topic, partition)
            except BrokerError as error:
                if error.code is not ErrorCode.leader_not_available or not backoff.pause():
                    raise
            self.refresh([topic])

    def known_leader(self, topic: str, partition: int) -> Leader:
        """The leader of a partition, from cached metadata. Raises a BrokerError, which `refresh` may resolve, if there is none."""
        if topic not in self._topics:
            raise BrokerError(ErrorCode.unknown_topic_or_partition, f"there is no metadata of topic {topic}")
        leaders = self._topics[topic].leaders
        if partition not in leaders:
            raise BrokerError(
                ErrorCode.unknown_topic_or_partition,
                f"topic {topic} has no partition {partition}: it has {len(leaders)}",
                "Partitions are numbered from 0.",
            )
        if leaders[partition].broker_id == NO_LEADER:
            raise BrokerError(ErrorCode.leader_not_available, f"{topic}-{partition} has no leader")
        return leaders[partition]

    def refresh(self, topics: Iterable[str], *, create: bool = False, deadline: Deadline | None = None) -> None:
        """Fetch the metadata of these topics again, after a change of leader or to find new partitions.

        With `create`, missing topics are created if the brokers do so for producers (`auto.create.topics.enable`).
        """
        wanted = list(topics)
        deadline = deadline or self.deadline()
        backoff = self.backoff(deadline.within(_NEW_TOPIC_S))
        while True:
            failed: dict[str, ErrorCode] = {}
            for answered in self.read_metadata(wanted, deadline, create=create).topics:
                known = self._topics.pop(answered.name, None)
                if answered.error_code is ErrorCode.none:
                    self._topics[answered.name] = read_topic(answered, known)
                    self._heard_at_s[answered.name] = time.monotonic()
                else:
                    failed[answered.name] = answered.error_code
            if not failed:
                return
            if not _SETTLING.issuperset(failed.values()) or not backoff.pause():
                topic, code = next(iter(failed.items()))
                is_missing = code is ErrorCode.unknown_topic_or_partition
                raise_for(code, f"topic {topic}", "it does not exist" if is_missing else None)

    def list_offsets(
        self, topic_partitions: Iterable[TopicPartition], when: int, *, read_committed: bool = False
    ) -> dict[TopicPartition, offsets.OffsetAt]:
        """The first (`EARLIEST`) or last (`LATEST`) offset of partitions, or that of the first record at or after a time in ms."""
        return offsets.list_offsets(self, topic_partitions, when, read_committed, self.backoff(self.deadline()))

    def committed(
        self, group: str, topic_partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, offsets.Position]:
        """The committed offsets of a group for these partitions, without those that have none."""
        return offsets.committed(self, group, topic_partitions)

    def commit(self, group: str, positions: Mapping[TopicPartition, int | offsets.Position]) -> None:
        """Commit offsets for a group that has no members."""
        offsets.commit(self, group, positions)

    def _topic(self, name: str, *, create: bool = False) -> Topic:
        if name not in self._topics:
            self.refresh([name], create=create)
        return self._topics[name]
