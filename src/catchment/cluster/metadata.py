"""The cluster as one immutable value: its brokers, its topics, and the leader of each partition.

A reader uses one image for a whole request, so that it never sees two states of the cluster. A change creates a new image, which
shares everything that did not change with the old one.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple
from uuid import UUID

NO_LEADER = -1
INTERNAL_TOPICS = frozenset({"__consumer_offsets", "__transaction_state", "__share_group_state"})


@dataclass(frozen=True, slots=True)
class Endpoint:
    host: str
    port: int


@dataclass(frozen=True, slots=True)
class BrokerImage:
    id: int
    endpoints: Mapping[str, Endpoint]
    """By listener name."""
    rack: str | None = None
    epoch: int = -1
    """The number of the registration in the store; a restarted broker has a greater one."""


@dataclass(frozen=True, slots=True)
class PartitionImage:
    partition: int
    leader: int
    """A broker's id, or `NO_LEADER`."""
    leader_epoch: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    partition_epoch: int = 0
    """The version of the partition's state; any change of leader or ISR raises it."""


@dataclass(frozen=True, slots=True)
class TopicImage:
    name: str
    id: UUID
    partitions: tuple[PartitionImage, ...]
    """In order of their numbers, without a gap."""
    settings: Mapping[str, str] = field(default_factory=dict)
    """What this topic overrides, by Kafka's names."""

    @property
    def is_internal(self) -> bool:
        return self.name in INTERNAL_TOPICS

    def led_by(self, broker_id: int) -> "TopicImage":
        """The topic with a new leader epoch in each partition; the broker leads those where it is in sync."""
        partitions = tuple(
            replace(
                state,
                leader=broker_id if broker_id in state.isr else NO_LEADER,
                leader_epoch=state.leader_epoch + 1,
                partition_epoch=state.partition_epoch + 1,
            )
            for state in self.partitions
        )
        return replace(self, partitions=partitions)


class QuotaEntity(NamedTuple):
    """The user, client id or IP address that a quota applies to. A part that is None does not belong to the entity.

    An empty name, which no user or client can have, is the default: it applies to those without a quota of their own.
    """

    user: str | None = None
    client_id: str | None = None
    ip: str | None = None


ClientQuotas = Mapping[QuotaEntity, Mapping[str, float]]
"""By entity, each quota's key and value."""


@dataclass(frozen=True, slots=True)
class MetadataImage:
    version: int = 0
    """Rises with every change of the image."""
    cluster_id: str = ""
    controller_id: int = -1
    brokers: Mapping[int, BrokerImage] = field(default_factory=dict)
    topics: Mapping[str, TopicImage] = field(default_factory=dict)
    topics_by_id: Mapping[UUID, TopicImage] = field(default_factory=dict)
    default_broker_settings: Mapping[str, str] = field(default_factory=dict)
    """Dynamic settings of every broker."""
    broker_settings: Mapping[int, Mapping[str, str]] = field(default_factory=dict)
    """Dynamic settings of single brokers."""
    group_settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """What single groups override, by Kafka's names; groups that override nothing are left out."""
    client_quotas: ClientQuotas = field(default_factory=dict)

    def partition(self, topic: str, partition: int) -> PartitionImage | None:
        """The partition's state, or None where there is no such topic or partition."""
        image = self.topics.get(topic)
        if image is None or not 0 <= partition < len(image.partitions):
            return None
        return image.partitions[partition]

    def with_topics(self, topics: Iterable[TopicImage]) -> "MetadataImage":
        """The image with these topics added or replaced."""
        by_name = dict(self.topics)
        by_id = dict(self.topics_by_id)
        for topic in topics:
            older = by_name.get(topic.name)
            if older is not None and older.id != topic.id:
                del by_id[older.id]
            by_name[topic.name] = topic
            by_id[topic.id] = topic
        return replace(self, version=self.version + 1, topics=by_name, topics_by_id=by_id)

    def without_topic(self, name: str) -> "MetadataImage":
        by_name = dict(self.topics)
        by_id = dict(self.topics_by_id)
        del by_id[by_name.pop(name).id]
        return replace(self, version=self.version + 1, topics=by_name, topics_by_id=by_id)

    def with_broker(self, broker: BrokerImage) -> "MetadataImage":
        return replace(self, version=self.version + 1, brokers={**self.brokers, broker.id: broker})

    def with_broker_settings(self, broker_id: int | None, settings: Mapping[str, str]) -> "MetadataImage":
        """The image with a broker's dynamic settings replaced, or with None those of every broker."""
        if broker_id is None:
            return replace(self, version=self.version + 1, default_broker_settings=dict(settings))
        changed = {**self.broker_settings, broker_id: dict(settings)}
        return replace(self, version=self.version + 1, broker_settings=changed)

    def with_group_settings(self, group_id: str, settings: Mapping[str, str]) -> "MetadataImage":
        """The image with the settings of a group replaced."""
        changed = {**self.group_settings, group_id: dict(settings)}
        if not settings:
            del changed[group_id]
        return replace(self, version=self.version + 1, group_settings=changed)

    def with_client_quotas(self, quotas: ClientQuotas) -> "MetadataImage":
        return replace(self, version=self.version + 1, client_quotas=dict(quotas))
