"""The share coordinator of this broker: a shard for each partition of `__share_group_state` that it leads.

A call creates the topic and waits for the shard to load, if necessary. The share-partition leaders and the group coordinator
of this broker call it directly, not over the network.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.broker.coordinators.internal_topics import (
    SHARE_STATE_TOPIC,
    share_state_topic,
)
from catchment.broker.coordinators.runtime import CoordinatorRuntime, answer_now, run_periodically
from catchment.broker.coordinators.shard_runner import ShardRunner
from catchment.cluster.controller import Controller
from catchment.cluster.metadata import MetadataImage, PartitionImage
from catchment.coordination.share_state.records import NO_COUNT, ShareKey
from catchment.ports.clock import Clock
from catchment.protocol.errors import ApiError
from catchment.replication.replicas import Replicas
from catchment.settings.broker import BrokerSettings
from catchment.storage.layout import format_uuid, parse_uuid

if TYPE_CHECKING:
    from catchment.coordination.share_state.batches import StateBatch
    from catchment.coordination.share_state.records import ShareState
    from catchment.coordination.share_state.shard import Reply, ShareStateShard
    from catchment.coordination.timers import Moment

_logger = logging.getLogger(__name__)


class ShareStateCoordinator:
    def __init__(self, settings: BrokerSettings, controller: Controller, replicas: Replicas, clock: Clock) -> None:
        self._settings = settings
        self._controller = controller
        self._replicas = replicas
        self._runtime = CoordinatorRuntime(
            lambda image: share_state_topic(settings, image),
            self._new_shard,
            controller,
            replicas,
            clock,
            node_id=settings.node_id,
            commit_timeout_ms=settings.integer("share.coordinator.write.timeout.ms"),
        )
        self._periodic_tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Load the shards of this broker, and follow the metadata image from now on. The replicas must follow it already."""
        await self._runtime.start()
        self._controller.subscribe(self._delete_states_of_deleted_topics)
        prune_ms = self._settings.integer("share.coordinator.state.topic.prune.interval.ms")
        cold_ms = self._settings.integer("share.coordinator.cold.partition.snapshot.interval.ms")
        self._periodic_tasks = [
            asyncio.get_running_loop().create_task(run_periodically(prune_ms, self.prune)),
            asyncio.get_running_loop().create_task(run_periodically(cold_ms, self.snapshot_cold)),
        ]

    async def close(self) -> None:
        for task in self._periodic_tasks:
            task.cancel()
        self._runtime.close()

    def _new_shard(self) -> ShareStateShard:
        from catchment.coordination.share_state.shard import ShareStateShard

        updates_per_snapshot = self._settings.integer("share.coordinator.snapshot.update.records.per.snapshot")
        return ShareStateShard(updates_per_snapshot, self._has_partition)

    async def find(self, coordinator_key: str) -> PartitionImage:
        """The partition that holds the state of "group:topic id:partition". The topic is created with the first key."""
        return await self._runtime.find(_coordinator_key(_parse_coordinator_key(coordinator_key)))

    async def initialize(
        self, group_id: str, topic_id: UUID, partition: int, state_epoch: int, start_offset: int
    ) -> None:
        key = ShareKey(group_id, topic_id, partition)
        await self._change(key, lambda shard, now, reply: shard.initialize(key, state_epoch, start_offset, reply, now))

    async def read(self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int) -> ShareState:
        """The state, for the leader of this epoch. Older leaders cannot write any more once this returns."""
        key = ShareKey(group_id, topic_id, partition)
        runner = await self._runner(key)
        state = answer_now(runner, lambda shard, now: shard.read(key, leader_epoch, now))
        await runner.wait_committed()
        return state

    async def read_summary(self, group_id: str, topic_id: UUID, partition: int) -> ShareState:
        """The state; its start offset is -1 if there is none."""
        key = ShareKey(group_id, topic_id, partition)
        runner = await self._runner(key)
        state = answer_now(runner, lambda shard, _: shard.summary(key))
        await runner.wait_committed()
        return state

    async def write(
        self,
        group_id: str,
        topic_id: UUID,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        batches: Sequence[StateBatch],
        delivery_complete_count: int = NO_COUNT,
    ) -> None:
        key = ShareKey(group_id, topic_id, partition)

        def command(shard: ShareStateShard, now: Moment, reply: Reply) -> None:
            shard.write(key, state_epoch, leader_epoch, start_offset, batches, delivery_complete_count, reply, now)

        await self._change(key, command)

    async def delete(self, group_id: str, topic_id: UUID, partition: int) -> None:
        key = ShareKey(group_id, topic_id, partition)
        await self._change(key, lambda shard, _, reply: shard.delete(key, reply))

    async def prune(self) -> None:
        """Delete the records that newer snapshots have superseded."""
        has_pruned = False
        for runner in self._runtime:
            partition = runner.partition
            # The count of records from the end equals the offsets only if compaction removed none.
            if partition.log.config.is_compacted:
                continue
            with contextlib.suppress(ApiError):
                needed_count = answer_now(runner, lambda shard, _: shard.states.needed_count)
                offset = runner.end_offset - needed_count
                await runner.wait_committed()
                if offset > partition.log.log_start_offset:
                    partition.log.advance_log_start(offset)
                    has_pruned = True
        try:
            if has_pruned:
                await self._replicas.checkpoint_log_starts()
        except OSError as error:
            _logger.error("pruned records of %s may reappear after a crash: %s", SHARE_STATE_TOPIC, error)

    async def snapshot_cold(self) -> None:
        """Write new snapshots of states whose last snapshot is old: they block pruning."""
        age_ms = self._settings.integer("share.coordinator.cold.partition.snapshot.interval.ms")
        for runner in self._runtime:
            with contextlib.suppress(ApiError):
                runner.run(lambda shard, now: shard.snapshot_cold(age_ms, now))

    async def _change(self, key: ShareKey, command: Callable[[ShareStateShard, Moment, Reply], None]) -> None:
        await self._runner(key)
        error = await self._runtime.ask(_coordinator_key(key), command)
        if error is not ErrorCode.none:
            raise ApiError(error)

    async def _runner(self, key: ShareKey) -> ShardRunner[ShareStateShard]:
        coordinator_key = _coordinator_key(key)
        if SHARE_STATE_TOPIC not in self._controller.image.topics:
            await self._runtime.find(coordinator_key)
        runner = self._runtime.runner_of(coordinator_key)
        await runner.wait_loaded()
        return runner

    def _has_partition(self, topic_id: UUID, partition: int) -> bool:
        topic = self._controller.image.topics_by_id.get(topic_id)
        return topic is not None and 0 <= partition < len(topic.partitions)

    def _delete_states_of_deleted_topics(self, old: MetadataImage, new: MetadataImage) -> None:
        gone = old.topics_by_id.keys() - new.topics_by_id.keys()
        for runner in self._runtime if gone else ():
            with contextlib.suppress(ApiError):
                runner.run(lambda shard, _: shard.delete_topics(gone))


def _coordinator_key(key: ShareKey) -> str:
    """The key that determines the partition of the state, in Kafka's format."""
    return f"{key.group_id}:{format_uuid(key.topic_id)}:{key.partition}"


def _parse_coordinator_key(text: str) -> ShareKey:
    """Parse the key. A group id may contain colons."""
    with contextlib.suppress(ValueError):
        group_id, topic_id, partition = text.rsplit(":", 2)
        if group_id.strip():
            return ShareKey(group_id, parse_uuid(topic_id), int(partition))
    raise ApiError(ErrorCode.invalid_request, f"'{text}' is not of the form group:topicId:partition.")
