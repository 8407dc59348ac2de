"""Simulated consumers of the classic protocol, eager or cooperative, which send one request a step.

A client applies the assignment of a response at once. Its next request waits for its next step.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from uuid import UUID

from kio.schema.errors import ErrorCode
from tests.coordination.groups.consumer.consumer_shards import ConsumerShard

from catchment.coordination.groups.classic.commands import (
    JoinRequest,
    JoinResponse,
    LeavingMember,
    SyncRequest,
    SyncResponse,
)
from catchment.coordination.groups.classic.consumer_protocol import read_assignment, read_subscription, write_assignment

_LOST = (ErrorCode.unknown_member_id, ErrorCode.illegal_generation, ErrorCode.fenced_instance_id)
Partition = tuple[str, int]


def subscription(topics: Sequence[str], owned: Mapping[str, Sequence[int]]) -> bytes:
    """A member's metadata, in version 1."""
    data = struct.pack(">hi", 1, len(topics)) + b"".join(struct.pack(">h", len(one)) + one.encode() for one in topics)
    data += struct.pack(">ii", -1, len(owned))
    for name, numbers in owned.items():
        data += struct.pack(">h", len(name)) + name.encode()
        data += struct.pack(f">i{len(numbers)}i", len(numbers), *numbers)
    return data


class ClassicClient:
    def __init__(
        self,
        shard: ConsumerShard,
        name: str,
        *topics: str,
        group_id: str = "g",
        is_cooperative: bool = False,
        instance_id: str | None = None,
    ) -> None:
        self.shard = shard
        self.name = name
        self.topics = topics
        self.group_id = group_id
        self.is_cooperative = is_cooperative
        self.instance_id = instance_id
        self.member_id = ""
        self.generation = -1
        self.owned: dict[str, list[int]] = {}
        self.error: ErrorCode | None = None
        self._next = "join"
        self._joined: JoinResponse | None = None
        self._made = 0
        self._topic_ids: dict[str, UUID] = {}
        self._topics_seen: dict[UUID, int] = {}

    @property
    def protocol(self) -> str:
        return "cooperative-sticky" if self.is_cooperative else "range"

    @property
    def reads(self) -> set[tuple[UUID, int]]:
        """The partitions that it owns, by the topic ids at the time of the assignment."""
        return {(self._topic_ids[name], number) for name, number in self.partitions if name in self._topic_ids}

    @property
    def partitions(self) -> set[Partition]:
        return {(name, number) for name, numbers in self.owned.items() for number in numbers}

    def step(self) -> None:
        """Send the next request, unless it waits for a response."""
        if self._next == "join":
            self._join()
        elif self._next == "sync" and self._joined is not None:
            self._sync(self._joined)
        elif self._next == "heartbeat" and self._has_stale_assignment:
            self._join()
        elif self._next == "heartbeat":
            self._heartbeat()

    @property
    def _has_stale_assignment(self) -> bool:
        """Whether it leads a classic group, and topics have changed since its last assignment."""
        is_leader = self._joined is not None and self._joined.leader_id == self.member_id
        return is_leader and self._topics_seen != self._topics_now()

    def _topics_now(self) -> dict[UUID, int]:
        return {topic.id: len(topic.partitions) for topic in self.shard.image.topics.values()}

    def leave(self) -> list[ErrorCode]:
        self._forget()
        return self.shard.leave(LeavingMember(self.member_id, self.instance_id), group_id=self.group_id)

    def lose_answers(self) -> None:
        """Repeat the open request: the coordinator has moved."""
        if self._next == "wait":
            self._next = "join"

    def _join(self) -> None:
        if not self.is_cooperative:
            self.owned = {}
        self._next = "wait"
        self._made += 1
        request = JoinRequest(
            self.group_id,
            self.member_id,
            self.instance_id,
            self.name,
            "/host",
            10_000,
            60_000,
            "consumer",
            ((self.protocol, subscription(self.topics, self.owned)),),
            str(self._made),
        )
        self.shard.call(lambda shard, now: shard.classic.join(request, self._on_join, now))
        self.shard.advance(0)

    def _on_join(self, answer: JoinResponse) -> None:
        self.error = answer.error
        self._next = "join"
        if answer.error is ErrorCode.member_id_required:
            self.member_id = answer.member_id
        elif answer.error in _LOST:
            self._forget()
        elif answer.error is ErrorCode.none:
            self.member_id, self.generation = answer.member_id, answer.generation
            self._joined = answer
            self._next = "sync"

    def _sync(self, joined: JoinResponse) -> None:
        self._next = "wait"
        assignments = self._assign(joined) if joined.leader_id == self.member_id else {}
        request = SyncRequest(
            self.group_id, self.generation, self.member_id, self.instance_id, "consumer", self.protocol, assignments
        )
        self.shard.call(lambda shard, now: shard.classic.sync(request, self._on_sync, now))

    def _on_sync(self, answer: SyncResponse) -> None:
        self.error = answer.error
        self._next = "join"
        if answer.error in _LOST:
            self._forget()
        elif answer.error is ErrorCode.none:
            had = self.partitions
            self._topic_ids = {topic.name: topic.id for topic in self.shard.image.topics.values()}
            self.owned = {
                name: list(numbers) for name, numbers in read_assignment(answer.assignment).partitions.items()
            }
            # A member that had to revoke partitions rejoins, so that others can get them (KIP-429).
            self._next = "join" if self.is_cooperative and had - self.partitions else "heartbeat"

    def _heartbeat(self) -> None:
        self.error = self.shard.heartbeat(
            self.member_id, self.generation, group_id=self.group_id, instance_id=self.instance_id
        )
        if self.error in _LOST:
            self._forget()
        elif self.error is ErrorCode.rebalance_in_progress:
            if not self.is_cooperative:
                self.owned = {}
            self._next = "join"

    def _forget(self) -> None:
        if self.error is ErrorCode.unknown_member_id:
            self.member_id = ""
        self.generation = -1
        self.owned = {}
        self._next = "join"

    def _assign(self, joined: JoinResponse) -> dict[str, bytes]:
        """The assignment of a leader: all partitions in turn, except those that another member has to revoke first."""
        self._topics_seen = self._topics_now()
        metadata = {member_id: read_subscription(data) for member_id, _, data in joined.members}
        owners = {
            (name, number): member_id
            for member_id, subscription in metadata.items()
            for name, numbers in subscription.owned.items()
            for number in numbers
        }
        shares: dict[str, dict[str, list[int]]] = {member_id: {} for member_id in metadata}
        for name in sorted({name for subscription in metadata.values() for name in subscription.topics}):
            topic = self.shard.image.topics.get(name)
            readers = [member_id for member_id, subscription in metadata.items() if name in subscription.topics]
            for number in range(0 if topic is None else len(topic.partitions)):
                reader = readers[number % len(readers)]
                if owners.get((name, number), reader) == reader:
                    shares[reader].setdefault(name, []).append(number)
        return {member_id: write_assignment(share, 1) for member_id, share in shares.items()}
