"""The group coordinator of this broker: a shard for each partition of `__consumer_offsets` that it leads."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.broker.coordinators.internal_topics import offsets_topic
from catchment.broker.coordinators.runtime import CoordinatorRuntime, answer_now, run_periodically
from catchment.broker.coordinators.share_groups import share_group_limits
from catchment.cluster.controller import Controller
from catchment.cluster.metadata import MetadataImage, PartitionImage, TopicImage
from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.groups.records import NO_EPOCH, CommittedOffset
from catchment.coordination.timers import Moment
from catchment.ports.clock import Clock
from catchment.protocol.errors import ApiError
from catchment.replication.partition import Partition
from catchment.replication.replicas import Replicas
from catchment.settings.broker import BrokerSettings
from catchment.settings.groups import GroupSettings
from catchment.storage.control_record import TransactionMarker

if TYPE_CHECKING:
    from catchment.coordination.groups.classic.commands import (
        JoinRequest,
        JoinResponse,
        LeavingMember,
        SyncRequest,
        SyncResponse,
    )
    from catchment.coordination.groups.consumer.commands import ConsumerGroupLimits, HeartbeatRequest, HeartbeatResponse
    from catchment.coordination.groups.consumer.group import CurrentAssignment
    from catchment.coordination.groups.modern import GroupDescription
    from catchment.coordination.groups.offset_commands import CommitRequest
    from catchment.coordination.groups.offsets import TopicPartition
    from catchment.coordination.groups.queries import ClassicGroupDescription, ListedGroup, Positions
    from catchment.coordination.groups.shard import GroupShard
    from catchment.coordination.groups.state import GroupLimits
    from catchment.coordination.timers import Moment


class GroupCoordinator:
    def __init__(
        self,
        settings: BrokerSettings,
        controller: Controller,
        replicas: Replicas,
        clock: Clock,
        randomness: random.Random,
    ) -> None:
        self._settings = settings
        self._controller = controller
        self._randomness = randomness
        self._runtime = CoordinatorRuntime(
            lambda image: offsets_topic(settings, image),
            self._new_shard,
            controller,
            replicas,
            clock,
            node_id=settings.node_id,
            commit_timeout_ms=settings.integer("offsets.commit.timeout.ms"),
        )
        self.consumer_groups = ConsumerGroupCoordinator(self._runtime)
        self._expiring: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the shards of this broker, and follow the metadata image from now on. The replicas must follow it already."""
        await self._runtime.start()
        self._controller.subscribe(self._delete_offsets_of_deleted_topics)
        interval_ms = self._settings.integer("offsets.retention.check.interval.ms")
        self._expiring = asyncio.get_running_loop().create_task(run_periodically(interval_ms, self._expire))

    async def close(self) -> None:
        if self._expiring is not None:
            self._expiring.cancel()
        self._runtime.close()

    @property
    def runtime(self) -> CoordinatorRuntime[GroupShard]:
        """The shards, for the coordinators of single kinds of groups."""
        return self._runtime

    def _new_shard(self) -> GroupShard:
        # A quarter of all imports at the start of a broker, and not needed before the first group.
        from catchment.coordination.groups.shard import GroupShard

        settings, controller = self._settings, self._controller
        return GroupShard(
            group_limits(settings),
            lambda: controller.image,
            consumer_group_limits(settings, lambda: controller.image),
            share_group_limits(settings, controller),
        )

    def new_member_id(self) -> str:
        """The random part of a member id."""
        return str(UUID(int=self._randomness.getrandbits(128), version=4))

    async def find(self, group_id: str) -> PartitionImage:
        """The partition of the group. The topic is created with the first group."""
        return await self._runtime.find(group_id)

    async def join(self, request: JoinRequest) -> JoinResponse:
        def command(shard: GroupShard, now: Moment, reply: Callable[[JoinResponse], None]) -> None:
            shard.classic.join(request, reply, now)

        return await self._runtime.ask(request.group_id, command)

    async def sync(self, request: SyncRequest) -> SyncResponse:
        def command(shard: GroupShard, now: Moment, reply: Callable[[SyncResponse], None]) -> None:
            shard.classic.sync(request, reply, now)

        return await self._runtime.ask(request.group_id, command)

    def heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> ErrorCode:
        return answer_now(
            self._runtime.runner_of(group_id),
            lambda shard, now: shard.classic.heartbeat(group_id, generation, member_id, instance_id, now),
        )

    async def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> list[ErrorCode]:
        return await self._runtime.read(group_id, lambda shard, now: shard.classic.leave(group_id, leaving, now))

    def commit(self, request: CommitRequest) -> asyncio.Future[list[ErrorCode]]:
        """Commit offsets in this step; the future has an error code for each offset, once they are durable.

        With a producer, its transaction must have been verified.
        """
        return self._runtime.begin(request.group_id, partial(_commit, request))

    def partition_of(self, group_id: str) -> Partition:
        """The partition of the group; ApiError if this broker does not lead it."""
        return self._runtime.runner_of(group_id).partition

    def end_transaction(self, number: int, producer: Producer, marker: TransactionMarker) -> asyncio.Future[None]:
        """Write a marker to a partition of the offsets topic. Its pending offsets take effect, or are dropped, at once."""
        runner = self._runtime.runner_at(number)
        if runner is None:
            raise ApiError(ErrorCode.not_coordinator)
        return runner.end_transaction(producer, marker)

    async def offsets(
        self, group_id: str, member_id: str | None = None, epoch: int = NO_EPOCH
    ) -> Mapping[TopicPartition, CommittedOffset]:
        """All offsets that the group has committed. Members of a consumer group send their id and epoch."""
        return await self._runtime.read(
            group_id, lambda shard, _: dict(shard.offsets.fetch(group_id, member_id, epoch))
        )

    def pending_offsets(self, group_id: str) -> frozenset[TopicPartition]:
        """The partitions whose offsets an open transaction may still change."""
        runner = self._runtime.runner_of(group_id)
        return answer_now(runner, lambda shard, _: frozenset(shard.offsets.pending(group_id)))

    async def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition]) -> list[ErrorCode]:
        def command(shard: GroupShard, _: Moment, reply: Callable[[list[ErrorCode]], None]) -> None:
            shard.offsets.delete(group_id, partitions, reply)

        return await self._runtime.ask(group_id, command)

    async def listing(self) -> Sequence[ListedGroup]:
        """The groups of all loaded shards; ApiError while one is still loading."""
        return await self._runtime.read_all(lambda shard, _: shard.groups.listing())

    async def consumed(self, topic: TopicImage) -> tuple[dict[str, Positions], list[str]]:
        """The positions of all groups in the topic, and the share groups that read it; ApiError unless all shards are loaded."""
        found: dict[str, Positions] = {}
        share_groups: list[str] = []
        for runner in self._runtime.all_led():
            positions = answer_now(runner, lambda shard, _: shard.consumed.positions(topic.name))
            interested = answer_now(
                runner, lambda shard, _: shard.share_groups.offsets.interested_in(topic.name, topic.id)
            )
            await runner.wait_committed()
            found.update(positions)
            share_groups += interested
        return found, share_groups

    async def describe(self, group_id: str) -> ClassicGroupDescription:
        return await self._runtime.read(group_id, lambda shard, _: shard.groups.describe(group_id))

    async def delete(self, group_id: str) -> ErrorCode:
        def command(shard: GroupShard, _: Moment, reply: Callable[[ErrorCode], None]) -> None:
            shard.groups.delete(group_id, reply)

        return await self._runtime.ask(group_id, command)

    def _delete_offsets_of_deleted_topics(self, old: MetadataImage, new: MetadataImage) -> None:
        """Delete the offsets of deleted topics: a new topic of the same name must not start at them."""
        for name, topic in old.topics.items():
            successor = new.topics.get(name)
            if successor is None or successor.id != topic.id:
                for runner in self._runtime:
                    with contextlib.suppress(ApiError):
                        runner.run(partial(_delete_topic, name))

    async def _expire(self) -> None:
        for runner in self._runtime:
            with contextlib.suppress(ApiError):
                runner.run(lambda shard, now: shard.offsets.expire(now))


def _commit(request: CommitRequest, shard: GroupShard, now: Moment, reply: Callable[[list[ErrorCode]], None]) -> None:
    shard.offsets.commit(request, reply, now)


def _delete_topic(name: str, shard: GroupShard, _: Moment) -> None:
    shard.offsets.delete_topic(name)


class ConsumerGroupCoordinator:
    def __init__(self, shards: CoordinatorRuntime[GroupShard]) -> None:
        self._runtime = shards

    async def heartbeat(self, request: HeartbeatRequest) -> HeartbeatResponse:
        def command(shard: GroupShard, now: Moment, reply: Callable[[HeartbeatResponse], None]) -> None:
            shard.consumer.heartbeats.heartbeat(request, reply, now)

        runner = self._runtime.runner_of(request.group_id)
        answer = await self._runtime.ask(request.group_id, command)
        # The response may depend on records of earlier requests, which must be committed too.
        await runner.wait_committed()
        return answer

    async def describe(self, group_id: str) -> GroupDescription[CurrentAssignment]:
        return await self._runtime.read(group_id, lambda shard, _: shard.consumer.describe(group_id))


def consumer_group_limits(settings: BrokerSettings, image: Callable[[], MetadataImage]) -> ConsumerGroupLimits:
    from catchment.coordination.groups.consumer.commands import ConsumerGroupLimits, GroupTiming, MigrationPolicy

    def timing_of(group_id: str) -> GroupTiming:
        group = GroupSettings(settings, image().group_settings.get(group_id, {}))
        return GroupTiming(
            group.integer("consumer.session.timeout.ms"), group.integer("consumer.heartbeat.interval.ms")
        )

    assignors = settings["group.consumer.assignors"]
    return ConsumerGroupLimits(
        timing_of,
        settings.integer("group.consumer.max.size"),
        assignors if isinstance(assignors, tuple) else (),
        MigrationPolicy((settings.text("group.consumer.migration.policy") or "").lower()),
    )


def group_limits(settings: BrokerSettings) -> GroupLimits:
    from catchment.coordination.groups.state import GroupLimits

    return GroupLimits(
        min_session_timeout_ms=settings.integer("group.min.session.timeout.ms"),
        max_session_timeout_ms=settings.integer("group.max.session.timeout.ms"),
        max_size=settings.integer("group.max.size"),
        initial_rebalance_delay_ms=settings.integer("group.initial.rebalance.delay.ms"),
        offset_metadata_max_bytes=settings.integer("offset.metadata.max.bytes"),
        offsets_retention_ms=settings.integer("offsets.retention.minutes") * 60_000,
    )
