"""What Metadata says of topics: their ids, their partitions, and who leads those."""

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
    """The broker that leads a partition, `NO_LEADER` if none does, and since which epoch (-1 if it is not told)."""

    broker_id: int
    epoch: int


class Topic(NamedTuple):
    """A topic as a broker knew it when asked; brokers before 2.8 have no ids for topics."""

    topic_id: UUID | None
    leaders: dict[int, Leader]


def metadata_request(topics: Iterable[str] | None, *, create: bool = False) -> MetadataRequest:
    """Ask for these topics, or for all; with `create` a broker that makes topics by itself makes those that are missing."""
    wanted = None
    if topics is not None:
        wanted = tuple([MetadataRequestTopic(topic_id=None, name=TopicName(topic)) for topic in topics])
    return MetadataRequest(topics=wanted, allow_auto_topic_creation=create, include_topic_authorized_operations=False)


def read_topic(answered: Any, known: Topic | None) -> Topic:
    """A topic out of an answer, which may be older than what is known: the later epoch counts (KIP-320)."""
    leaders = {
        one.partition_index: Leader(one.leader_id, one.leader_epoch)
        for one in sorted(answered.partitions, key=lambda one: int(one.partition_index))
    }
    if known is not None and known.topic_id == answered.topic_id:
        for partition, leader in known.leaders.items():
            if partition in leaders and leaders[partition].epoch < leader.epoch:
                leaders[partition] = leader
    return Topic(answered.topic_id, leaders)
