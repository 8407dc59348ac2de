"""The runtime of one coordinator: a shard for each partition of its internal topic that this broker leads.

Every command runs before anything is awaited, so the requests of one connection take effect in their order, though their
responses may have to wait.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Generic

from kio.schema.errors import ErrorCode

from catchment.broker.coordinators.shard_runner import Answer, ShardRunner, ShardT
from catchment.cluster.controller import Controller
from catchment.cluster.metadata import MetadataImage, PartitionImage, TopicImage
from catchment.cluster.new_topic import NewTopic
from catchment.coordination.partitioning import partition_for
from catchment.coordination.timers import Moment
from catchment.ports.clock import Clock
from catchment.protocol.errors import ApiError
from catchment.replication.replicas import Replicas

_logger = logging.getLogger(__name__)


class CoordinatorRuntime(Generic[ShardT]):
    def __init__(
        self,
        topic: Callable[[MetadataImage], NewTopic],
        new_shard: Callable[[], ShardT],
        controller: Controller,
        replicas: Replicas,
        clock: Clock,
        *,
        node_id: int,
        commit_timeout_ms: int,
    ) -> None:
        """`topic` returns the internal topic to create, given the brokers in the metadata image."""
        self._new_topic = topic
        self._topic_name = topic(controller.image).name
        self._new_shard = new_shard
        self._controller = controller
        self._replicas = replicas
        self._clock = clock
        self._node_id = node_id
        self._commit_timeout_ms = commit_timeout_ms
        self._runners: dict[int, ShardRunner[ShardT]] = {}
        self._creating = asyncio.Lock()

    def __iter__(self) -> Iterator[ShardRunner[ShardT]]:
        return iter(list(self._runners.values()))

    async def start(self) -> None:
        """Load the shards of this broker, and follow the metadata image from now on. The replicas must follow it already."""
        await self._set_topic_settings()
        self._follow(self._controller.image)
        self._controller.subscribe(lambda _, new: self._follow(new))

    def close(self) -> None:
        for runner in self._runners.values():
            runner.close()
        self._runners.clear()

    async def find(self, key: str) -> PartitionImage:
        """The partition of the key. The topic is created with the first key."""
        if (topic := self._topic) is None:
            async with self._creating:
                if (topic := self._topic) is None:
                    topic = await self._create()
        return topic.partitions[partition_for(key, len(topic.partitions))]

    def runner_of(self, key: str) -> ShardRunner[ShardT]:
        """The runner of the shard of the key; ApiError if this broker does not lead it."""
        topic = self._topic
        runner = None if topic is None else self._runners.get(partition_for(key, len(topic.partitions)))
        if runner is None:
            raise ApiError(ErrorCode.not_coordinator)
        return runner

    def runner_at(self, number: int) -> ShardRunner[ShardT] | None:
        """The runner of the shard of a partition, if this broker leads it."""
        return self._runners.get(number)

    def all_led(self) -> list[ShardRunner[ShardT]]:
        """The runners of all shards; ApiError if another broker leads one of them."""
        topic = self._topic
        if topic is not None and len(self._runners) != len(topic.partitions):
            raise ApiError(ErrorCode.not_coordinator)
        return list(self._runners.values())

    async def read(self, key: str, command: Callable[[ShardT, Moment], Answer]) -> Answer:
        """Run a command that returns its reply, and wait until all that it has seen is committed."""
        runner = self.runner_of(key)
        answer = answer_now(runner, command)
        await runner.wait_committed()
        return answer

    async def read_all(self, command: Callable[[ShardT, Moment], list[Answer]]) -> list[Answer]:
        """The replies of all shards of this broker, joined; ApiError while one is still loading."""
        found: list[Answer] = []
        for runner in self:
            try:
                answers = answer_now(runner, command)
                await runner.wait_committed()
            except ApiError as error:
                if error.code is not ErrorCode.not_coordinator:
                    raise
            else:
                found += answers
        return found

    async def ask(self, key: str, command: Callable[[ShardT, Moment, Callable[[Answer], None]], None]) -> Answer:
        """Run a command that replies now or later."""
        return await self.begin(key, command)

    def begin(
        self, key: str, command: Callable[[ShardT, Moment, Callable[[Answer], None]], None]
    ) -> "asyncio.Future[Answer]":
        """Run a command at once, and return a future of its reply."""
        return self.runner_of(key).ask(command)

    @property
    def _topic(self) -> TopicImage | None:
        return self._controller.image.topics.get(self._topic_name)

    async def _create(self) -> TopicImage:
        try:
            return await self._controller.create_topic(self._new_topic(self._controller.image))
        except ApiError as error:
            # It cannot be created now: the client retries.
            raise ApiError(ErrorCode.coordinator_not_available, error.message) from error

    async def _set_topic_settings(self) -> None:
        """Set the settings of a topic without any, as from a Kafka log directory: retention must not delete its records."""
        topic = self._topic
        if topic is not None and "cleanup.policy" not in topic.settings:
            needed = self._new_topic(self._controller.image).settings
            await self._controller.change_topic_settings(self._topic_name, lambda given: {**needed, **given})

    def _follow(self, image: MetadataImage) -> None:
        """Load and unload shards: one for each partition that this broker leads in the epoch of the image."""
        topic = image.topics.get(self._topic_name)
        for number, runner in list(self._runners.items()):
            if topic is None or not self._still_leads(runner, topic):
                self._runners.pop(number).close()
        for state in () if topic is None else topic.partitions:
            if state.leader == self._node_id and state.partition not in self._runners:
                self._start_shard(state.partition)

    def _still_leads(self, runner: ShardRunner[ShardT], topic: TopicImage) -> bool:
        partition = runner.partition
        state = topic.partitions[partition.number]
        return (
            partition.log.topic_id == topic.id
            and state.leader == self._node_id
            and state.leader_epoch == runner.leader_epoch
        )

    def _start_shard(self, number: int) -> None:
        try:
            partition = self._replicas.find(self._topic_name, number)
        except ApiError as error:
            _logger.error("the coordinator shard of %s-%d is not available: %s", self._topic_name, number, error)
            return
        runner = self._runners[number] = ShardRunner(partition, self._new_shard, self._clock, self._commit_timeout_ms)
        runner.start()


def answer_now(runner: ShardRunner[ShardT], command: Callable[[ShardT, Moment], Answer]) -> Answer:
    """Run a command that returns its reply."""
    answers: list[Answer] = []
    runner.run(lambda shard, now: answers.append(command(shard, now)))
    return answers[0]


async def run_periodically(interval_ms: int, work: Callable[[], Awaitable[None]]) -> None:
    """Do the work in intervals until cancelled. A failure is logged, and the work is tried again after the interval."""
    while True:
        await asyncio.sleep(interval_ms / 1000)
        try:
            await work()
        except Exception:
            _logger.exception("a periodic task of a coordinator failed; it runs again in %d ms", interval_ms)
