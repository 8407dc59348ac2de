"""The metadata of topics: their ids, their partitions, and the leaders of these."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, NamedTuple
from uuid import UUID

from kio.schema.metadata.v13.request import MetadataRequest, MetadataRequestTopic
from kio.schema.types import TopicName

NO_LEADER: Final = -1

TopicPartition = tuple[str, int]
"""A topic and a partition."""


class Leader(NamedTuple):
    """The leader of a partition, `NO_LEADER` if there is none, and its epoch (-1 if it is unknown)."""

    broker_id: int
    epoch: int


class Topic(NamedTuple):
    """The metadata of a topic. Brokers before 2.8 have no topic ids."""

    topic_id: UUID | None
    leaders: dict[int, Leader]


def metadata_request(topics: Iterable[str] | None, *, create: bool = False) -> MetadataRequest:
    """A request for these topics, or for all. With `create`, a broker that creates topics automatically creates missing ones."""
    wanted = None
    if topics is not None:
        wanted = tuple([MetadataRequestTopic(topic_id=None, name=TopicName(topic)) for topic in topics])
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=create, include_topic_authorized_operations=False)


def read_topic(answered: Any, known: Topic | None) -> Topic:
    """The metadata of a topic. The response may be older than what is known: the later epoch is used (KIP-320)."""
    leaders = {
        one.partition_index: Leader(one.leader_id, one.leader_epoch)
        for one in sorted(answered.partitions, key=lambda one: int(one.partition_index))
    }
    if known is not None and known.topic_id == answered.topic_id:
        for partition, leader in known.leaders.items():
            if partition in leaders and leaders[partition].epoch < leader.epoch:
                leaders[partition] = leader
    return Topic(answered.topic_id, leaders)
