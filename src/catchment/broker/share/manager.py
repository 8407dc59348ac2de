"""The share partitions that this broker leads, and the share sessions of their members.

A share partition is loaded with the first fetch of a member. It is dropped when the last session of its group ends, when the
broker no longer leads the partition in the same epoch, or when it is fenced: the next fetch loads the state again.
"""

from __future__ import annotations

import asyncio
import logging
import re
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from catchment.broker.share.sessions import SessionKey, ShareSession, ShareSessions, TopicPartition
from catchment.cluster.controller import Controller
from catchment.cluster.metadata import MetadataImage
from catchment.coordination.share_state.records import ShareKey
from catchment.ports.clock import Clock
from catchment.replication.partition import Partition
from catchment.replication.replicas import Replicas
from catchment.settings.broker import BrokerSettings
from catchment.settings.groups import GroupSettings

if TYPE_CHECKING:
    from catchment.broker.share.in_flight import RecordRules
    from catchment.broker.share.leader import Persister, ShareLeader

_logger = logging.getLogger(__name__)

_DURATION: Final = (
    r"P(?:(?P<days>\d+)D)?(?:T(?:(?P<hours>\d+)H)?(?:(?P<minutes>\d+)M)?(?:(?P<seconds>\d+(?:\.\d+)?)S)?)?"
)
_UNITS_MS: Final = {"days": 86_400_000, "hours": 3_600_000, "minutes": 60_000, "seconds": 1000}


class SharePartitionManager:
    def __init__(
        self, settings: BrokerSettings, controller: Controller, replicas: Replicas, persister: Persister, clock: Clock
    ) -> None:
        self.sessions = ShareSessions(settings.integer("group.share.max.share.sessions"))
        self._settings = settings
        self._controller = controller
        self._replicas = replicas
        self._persister = persister
        self._clock = clock
        self._leaders: dict[ShareKey, ShareLeader] = {}
        self._tasks: dict[asyncio.Task[None], None] = {}

    def start(self) -> None:
        self._controller.subscribe(self._follow)

    async def close(self) -> None:
        """Close all share partitions, and wait for writes in progress."""
        leaders = list(self._leaders.values())
        self._leaders.clear()
        for leader in leaders:
            leader.close()
        if self._tasks:
            await asyncio.wait(list(self._tasks))

    def rules(self, group_id: str) -> RecordRules:
        from catchment.broker.share.in_flight import RecordRules

        settings = self._group(group_id)
        return RecordRules(
            lock_duration_ms=settings.integer("share.record.lock.duration.ms"),
            max_delivery_count=settings.integer("share.delivery.count.limit"),
            max_record_locks=settings.integer("share.partition.max.record.locks"),
            may_renew=settings.boolean("share.renew.acknowledge.enable"),
        )

    def reads_committed(self, group_id: str) -> bool:
        return self._group(group_id).text("share.isolation.level") == "read_committed"

    def lead(self, group_id: str, asked: TopicPartition) -> ShareLeader:
        """The share partition, which the first call begins to load; ApiError if this broker does not lead it."""
        from catchment.broker.share.leader import ShareLeader

        partition = self._replicas.find(asked.topic_id, asked.partition)
        key = ShareKey(group_id, asked.topic_id, asked.partition)
        leader = self._leaders.get(key)
        if leader is not None and leader.partition is partition and leader.error is None:
            return leader
        if leader is not None:
            leader.close()
        leader = self._leaders[key] = ShareLeader(
            key,
            partition,
            self._persister,
            self._clock,
            lambda: self.rules(group_id),
            lambda partition: self._first_offset(group_id, partition),
            self._drop,
            self._run,
        )
        leader.start()
        return leader

    def loaded(self, group_id: str, asked: TopicPartition) -> ShareLeader | None:
        """The share partition, if it is loaded; ApiError if this broker does not lead it."""
        self._replicas.find(asked.topic_id, asked.partition)
        return self._leaders.get(ShareKey(group_id, asked.topic_id, asked.partition))

    def end_session(self, session: ShareSession) -> None:
        """End the session of a member that closed it or disconnected, and release its records."""
        if not self.sessions.is_open(session):
            return
        self.sessions.close(session)
        leaders = self.release(session.key)
        if not self.sessions.has_group(session.key.group_id):
            for leader in leaders:
                self._drop(leader)

    def release(self, key: SessionKey) -> list[ShareLeader]:
        """Release the records of a member in all partitions, and return the share partitions of its group."""
        leaders = [leader for leader in self._leaders.values() if leader.key.group_id == key.group_id]
        for leader in leaders:
            leader.release(key.member_id)
        return leaders

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._finished)

    def _finished(self, task: asyncio.Task[None]) -> None:
        del self._tasks[task]
        if not task.cancelled() and (fault := task.exception()) is not None:
            _logger.error("a background task of a share partition failed", exc_info=fault)

    def _drop(self, leader: ShareLeader) -> None:
        if self._leaders.get(leader.key) is leader:
            del self._leaders[leader.key]
        leader.close()

    def _follow(self, _: MetadataImage, new: MetadataImage) -> None:
        """Drop the share partitions that this broker no longer leads."""
        for leader in list(self._leaders.values()):
            topic = new.topics_by_id.get(leader.key.topic_id)
            state = None if topic is None else topic.partitions[leader.key.partition]
            if state is None or (state.leader, state.leader_epoch) != (self._settings.node_id, leader.leader_epoch):
                self._drop(leader)

    def _group(self, group_id: str) -> GroupSettings:
        return GroupSettings(self._settings, self._controller.image.group_settings.get(group_id, {}))

    def _first_offset(self, group_id: str, partition: Partition) -> int:
        """The start offset of a group that has not read the partition yet (`share.auto.offset.reset`)."""
        reset = self._group(group_id).text("share.auto.offset.reset")
        if reset == "latest":
            return partition.high_watermark
        if reset == "earliest":
            return partition.log.log_start_offset
        since_ms = self._clock.now_ms() - _milliseconds(reset.partition(":")[2])
        found = partition.log.offset_for_timestamp(since_ms, partition.high_watermark)
        return partition.high_watermark if found is None else found.offset


def _milliseconds(duration: str) -> int:
    """An ISO 8601 duration, such as PT1H or P2DT30M."""
    match = re.fullmatch(_DURATION, duration, re.IGNORECASE)
    if match is None:
        return 0
    return int(sum(float(count) * _UNITS_MS[unit] for unit, count in match.groupdict().items() if count))
