"""A shard with topics, and simulated consumers of KIP-848 that send heartbeats as clients do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any
from uuid import UUID, uuid5

from kio.schema.errors import ErrorCode
from tests.coordination.groups.shards import LIMITS, LoggedShard

from catchment.cluster.metadata import MetadataImage, PartitionImage, TopicImage
from catchment.coordination.groups.consumer.commands import (
    DEFAULT_LIMITS,
    ConsumerGroupLimits,
    HeartbeatRequest,
    HeartbeatResponse,
)
from catchment.coordination.groups.consumer.group import ConsumerGroup
from catchment.coordination.groups.shard import GroupShard
from catchment.coordination.groups.state import GroupLimits

_NAMES = UUID("6ba7b810-9dad-11d1-80b4-00c04fd430c8")
PartitionsByTopic = dict[UUID, frozenset[int]]


class ConsumerShard(LoggedShard):
    def __init__(
        self, consumer_limits: ConsumerGroupLimits = DEFAULT_LIMITS, limits: GroupLimits = LIMITS, **topics: int
    ) -> None:
        self.image = MetadataImage()
        self.consumer_limits = consumer_limits
        super().__init__(limits)
        self._generations: dict[str, int] = {}
        for name, partitions in topics.items():
            self.set_topic(name, partitions)
        self.call(lambda shard, now: shard.loaded(now))

    def new_shard(self) -> GroupShard:
        return GroupShard(self.limits, lambda: self.image, self.consumer_limits)

    def set_topic(self, name: str, partitions: int) -> None:
        """Create a topic, or add partitions to it."""
        known = self.image.topics.get(name)
        if known is None:
            self._generations[name] = self._generations.get(name, 0) + 1
        topic_id = uuid5(_NAMES, f"{name} {self._generations[name]}") if known is None else known.id
        replicas = (1,)
        states = tuple(PartitionImage(number, 1, 0, replicas, replicas) for number in range(partitions))
        self.image = self.image.with_topics([TopicImage(name, topic_id, states)])

    def delete_topic(self, name: str) -> None:
        self.image = self.image.without_topic(name)

    def group(self, group_id: str = "g") -> ConsumerGroup:
        return self.shard.consumer.groups.find(group_id)

    def beat(self, member_id: str, epoch: int, **options: Any) -> HeartbeatResponse:
        """Send a heartbeat that is answered at once."""
        (answer,) = self.beat_later(member_id, epoch, **options)
        return answer

    def beat_later(self, member_id: str, epoch: int, *, group_id: str = "g", **options: Any) -> list[HeartbeatResponse]:
        """Send a heartbeat, and return the responses so far."""
        answers: list[HeartbeatResponse] = []
        request = HeartbeatRequest(group_id, member_id, epoch, "client", "/host", **options)
        self.call(lambda shard, now: shard.consumer.heartbeats.heartbeat(request, answers.append, now))
        return answers

    def join_consumer(self, member_id: str, *topics: str, **options: Any) -> HeartbeatResponse:
        return self.beat(member_id, 0, **{"rebalance_timeout_ms": 60_000, "topics": topics, "owned": {}, **options})

    def names(self, owned: Mapping[UUID, Any]) -> dict[str, list[int]]:
        return {self.image.topics_by_id[topic_id].name: sorted(numbers) for topic_id, numbers in owned.items()}


class ConsumerClient:
    """One consumer: it revokes partitions at once, and reports so with its next heartbeat."""

    def __init__(self, shard: ConsumerShard, member_id: str, *topics: str, group_id: str = "g", **options: Any) -> None:
        self.shard = shard
        self.member_id = member_id
        self.topics = topics
        self.group_id = group_id
        self.options = options
        self.epoch = 0
        self.owned: PartitionsByTopic = {}
        self.has_missed_answer = False
        """Then it sends all fields, so that the response is complete too."""

    @property
    def reads(self) -> dict[str, list[int]]:
        return self.shard.names(self.owned)

    def request(self) -> dict[str, Any]:
        if self.epoch == 0 or self.has_missed_answer:
            owned = dict(self.owned)
            subscription = {"rebalance_timeout_ms": 60_000, "topics": self.topics, "owned": owned, **self.options}
        else:
            instance_id = self.options.get("instance_id")
            subscription = {"owned": dict(self.owned), "instance_id": instance_id}
        return {"group_id": self.group_id, **subscription}

    def beat(self) -> ErrorCode:
        answer = self.shard.beat(self.member_id, self.epoch, **self.request())
        self.take(answer)
        return answer.error

    def take(self, answer: HeartbeatResponse) -> None:
        self.has_missed_answer = False
        if answer.error in (ErrorCode.fenced_member_epoch, ErrorCode.unknown_member_id, ErrorCode.group_id_not_found):
            self.epoch = 0
            self.owned = {}
        elif answer.error is ErrorCode.none:
            self.epoch = answer.epoch
            if answer.assignment is not None:
                self.owned = dict(answer.assignment)

    def leave(self, epoch: int = -1) -> HeartbeatResponse:
        self.owned = {}
        self.epoch = 0
        instance_id = self.options.get("instance_id")
        return self.shard.beat(self.member_id, epoch, group_id=self.group_id, instance_id=instance_id)


def settle(*clients: ConsumerClient, rounds: int = 8) -> None:
    """Let the clients send heartbeats in turn until nothing changes any more."""
    for _ in range(rounds):
        for client in clients:
            assert client.beat() is ErrorCode.none
