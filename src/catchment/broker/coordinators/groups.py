"""The group coordinator of this broker: a shard for each partition of `__consumer_offsets` that it leads.

Every command runs in the step in which its request arrived, before anything is awaited: so requests of one connection take
effect in their order, though their answers may have to wait.
"""

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TypeVar
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.broker.coordinators.offsets_topic import OFFSETS_TOPIC, group_limits, offsets_topic
from catchment.broker.coordinators.shard_runner import ShardRunner
from catchment.cluster.controller import Controller
from catchment.cluster.metadata import MetadataImage, PartitionImage, TopicImage
from catchment.coordination.commands import (
    JoinAnswer,
    JoinRequest,
    LeavingMember,
    OffsetToCommit,
    SyncAnswer,
    SyncRequest,
)
from catchment.coordination.group_queries import DescribedGroup, ListedGroup
from catchment.coordination.group_records import CommittedOffset
from catchment.coordination.offsets import TopicPartition
from catchment.coordination.partitioning import partition_for
from catchment.coordination.shard import GroupShard
from catchment.coordination.timers import Moment
from catchment.ports.broker_settings import BrokerSettings
from catchment.ports.clock import Clock
from catchment.protocol.errors import ApiError
from catchment.replication.replicas import Replicas

_logger = logging.getLogger(__name__)

Answer = TypeVar("Answer")


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
        self._replicas = replicas
        self._clock = clock
        self._randomness = randomness
        self._limits = group_limits(settings)
        self._runners: dict[int, ShardRunner] = {}
        self._expiring: asyncio.Task[None] | None = None

    async def start(self) -> None:
        """Load the shards that are there, and follow the image from now on; the replicas must have it already."""
        await self._keep_for_ever()
        self._follow(self._controller.image)
        self._controller.subscribe(self._apply)
        self._expiring = asyncio.get_running_loop().create_task(self._expire_for_ever())

    async def close(self) -> None:
        if self._expiring is not None:
            self._expiring.cancel()
        for runner in self._runners.values():
            runner.close()
        self._runners.clear()

    def new_member_id(self) -> str:
        """The part of a member's id that nobody can guess."""
        return str(UUID(int=self._randomness.getrandbits(128), version=4))

    async def find(self, group_id: str) -> PartitionImage:
        """The partition that the group belongs to; its topic is made if this is the first group of all."""
        topic = self._controller.image.topics.get(OFFSETS_TOPIC)
        if topic is None:
            new = offsets_topic(self._settings, self._controller.image)
            try:
                topic = await self._controller.create_topic(new)
            except ApiError as error:
                # Somebody else is making it at this moment, or it cannot be made now: the client asks again.
                raise ApiError(ErrorCode.coordinator_not_available, error.message) from error
        return topic.partitions[partition_for(group_id, len(topic.partitions))]

    async def join(self, request: JoinRequest) -> JoinAnswer:
        def command(shard: GroupShard, now: Moment, reply: Callable[[JoinAnswer], None]) -> None:
            shard.joining.join(request, reply, now)

        return await self._ask(request.group_id, command)

    async def sync(self, request: SyncRequest) -> SyncAnswer:
        def command(shard: GroupShard, now: Moment, reply: Callable[[SyncAnswer], None]) -> None:
            shard.membership.sync(request, reply, now)

        return await self._ask(request.group_id, command)

    def heartbeat(self, group_id: str, generation: int, member_id: str, instance_id: str | None) -> ErrorCode:
        return self._now(
            self._runner(group_id),
            lambda shard, now: shard.membership.heartbeat(group_id, generation, member_id, instance_id, now),
        )

    async def leave(self, group_id: str, leaving: Sequence[LeavingMember]) -> list[ErrorCode]:
        runner = self._runner(group_id)
        outcomes = self._now(runner, lambda shard, now: shard.membership.leave(group_id, leaving, now))
        await runner.settled()
        return outcomes

    async def commit(
        self,
        group_id: str,
        generation: int,
        member_id: str,
        instance_id: str | None,
        offsets: Sequence[OffsetToCommit],
    ) -> list[ErrorCode]:
        def command(shard: GroupShard, now: Moment, reply: Callable[[list[ErrorCode]], None]) -> None:
            shard.offsets.commit(group_id, generation, member_id, instance_id, offsets, reply, now)

        return await self._ask(group_id, command)

    async def offsets(self, group_id: str) -> Mapping[TopicPartition, CommittedOffset]:
        runner = self._runner(group_id)
        found = self._now(runner, lambda shard, _: dict(shard.offsets.fetch(group_id)))
        await runner.settled()
        return found

    async def delete_offsets(self, group_id: str, partitions: Sequence[TopicPartition]) -> list[ErrorCode]:
        def command(shard: GroupShard, _: Moment, reply: Callable[[list[ErrorCode]], None]) -> None:
            shard.offsets.delete(group_id, partitions, reply)

        return await self._ask(group_id, command)

    async def listing(self) -> Sequence[ListedGroup]:
        """The groups of every shard that can be asked; ApiError while one is still loading."""
        found: list[ListedGroup] = []
        for runner in list(self._runners.values()):
            try:
                listed = self._now(runner, lambda shard, _: shard.groups.listing())
                await runner.settled()
            except ApiError as error:
                if error.code is not ErrorCode.not_coordinator:
                    raise
            else:
                found += listed
        return found

    async def describe(self, group_id: str) -> DescribedGroup:
        runner = self._runner(group_id)
        described = self._now(runner, lambda shard, _: shard.groups.describe(group_id))
        await runner.settled()
        return described

    async def delete(self, group_id: str) -> ErrorCode:
        def command(shard: GroupShard, _: Moment, reply: Callable[[ErrorCode], None]) -> None:
            shard.groups.delete(group_id, reply)

        return await self._ask(group_id, command)

    async def _keep_for_ever(self) -> None:
        """Give the topic its settings if it came without, as from a directory of Kafka's: retention must not take offsets."""
        topic = self._controller.image.topics.get(OFFSETS_TOPIC)
        if topic is not None and "cleanup.policy" not in topic.settings:
            needed = offsets_topic(self._settings, self._controller.image).settings
            await self._controller.change_topic_settings(OFFSETS_TOPIC, lambda given: {**needed, **given})

    def _runner(self, group_id: str) -> ShardRunner:
        topic = self._controller.image.topics.get(OFFSETS_TOPIC)
        runner = None if topic is None else self._runners.get(partition_for(group_id, len(topic.partitions)))
        if runner is None:
            raise ApiError(ErrorCode.not_coordinator)
        return runner

    async def _ask(
        self, group_id: str, command: Callable[[GroupShard, Moment, Callable[[Answer], None]], None]
    ) -> Answer:
        """Run a command that answers now or later."""
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def reply(answer: Answer) -> None:
            if not answered.done():
                answered.set_result(answer)

        self._runner(group_id).run(lambda shard, now: command(shard, now, reply))
        return await answered

    def _now(self, runner: ShardRunner, command: Callable[[GroupShard, Moment], Answer]) -> Answer:
        """Run a command that answers at once."""
        answers: list[Answer] = []
        runner.run(lambda shard, now: answers.append(command(shard, now)))
        return answers[0]

    def _apply(self, old: MetadataImage, new: MetadataImage) -> None:
        for name, topic in old.topics.items():
            successor = new.topics.get(name)
            if successor is None or successor.id != topic.id:
                self._forget_topic(name)
        self._follow(new)

    def _forget_topic(self, name: str) -> None:
        """Whoever makes a topic of this name again must not begin at the offsets of the old one."""
        for runner in self._runners.values():
            with contextlib.suppress(ApiError):
                runner.run(lambda shard, _: shard.offsets.delete_topic(name))

    def _follow(self, image: MetadataImage) -> None:
        """Have a shard for each partition that this broker leads in the epoch that the image says."""
        topic = image.topics.get(OFFSETS_TOPIC)
        states = () if topic is None else topic.partitions
        for number, runner in list(self._runners.items()):
            if topic is None or not self._still_leads(runner, topic):
                self._runners.pop(number).close()
        for state in states:
            if state.leader == self._settings.node_id and state.partition not in self._runners:
                self._start_shard(state.partition)

    def _still_leads(self, runner: ShardRunner, topic: TopicImage) -> bool:
        partition = runner.partition
        state = topic.partitions[partition.number]
        return (
            partition.log.topic_id == topic.id
            and state.leader == self._settings.node_id
            and state.leader_epoch == runner.leader_epoch
        )

    def _start_shard(self, number: int) -> None:
        try:
            partition = self._replicas.find(OFFSETS_TOPIC, number)
        except ApiError as error:
            _logger.error("the groups of %s-%d are not served: %s", OFFSETS_TOPIC, number, error)
            return
        timeout_ms = self._settings.integer("offsets.commit.timeout.ms")
        runner = self._runners[number] = ShardRunner(partition, self._limits, self._clock, timeout_ms)
        runner.start()

    async def _expire_for_ever(self) -> None:
        interval_s = self._settings.integer("offsets.retention.check.interval.ms") / 1000
        while True:
            await asyncio.sleep(interval_s)
            for runner in list(self._runners.values()):
                with contextlib.suppress(ApiError):
                    runner.run(lambda shard, now: shard.offsets.expire(now))
