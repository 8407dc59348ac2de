"""Deletion of consumed records: the setting `catchment.retention.consumed.by`.

Only durable positions count: if a crash could undo a commit, the group would return to records that are deleted. The position of
a consumer group is its committed offset, without the pending offsets of open transactions. The position of a share group is the
first record that it may deliver again.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from catchment.broker.coordinators.groups import GroupCoordinator
from catchment.broker.coordinators.share_state import ShareStateCoordinator
from catchment.cluster.controller import Controller
from catchment.cluster.metadata import TopicImage
from catchment.protocol.errors import ApiError
from catchment.replication.replicas import Replicas

if TYPE_CHECKING:
    from catchment.coordination.groups.queries import Positions

_logger = logging.getLogger(__name__)


class ConsumedRetention:
    def __init__(
        self, controller: Controller, replicas: Replicas, groups: GroupCoordinator, share_state: ShareStateCoordinator
    ) -> None:
        self._controller = controller
        self._replicas = replicas
        self._groups = groups
        self._share_state = share_state

    async def apply(self) -> None:
        """Advance the log start of every topic with the setting past its consumed records, and checkpoint the log starts."""
        moved = False
        for topic in list(self._controller.image.topics.values()):
            named = self._replicas.log_config(topic.settings).retention_consumed_by
            if named and not topic.is_internal:
                try:
                    moved |= await self._release(topic, named)
                except ApiError as error:
                    _logger.info(
                        "cannot delete consumed records of %s now, because the positions of its groups are unknown: %s",
                        topic.name,
                        error,
                    )
        if moved:
            await self._replicas.checkpoint_log_starts()

    async def _release(self, topic: TopicImage, named: tuple[str, ...]) -> bool:
        from catchment.coordination.groups.queries import floors

        positions, share_groups = await self._groups.consumed(topic)
        for group_id in share_groups:
            positions[group_id] = await self._shared(group_id, topic)
        moved = False
        for number, floor in enumerate(floors(positions, named, len(topic.partitions))):
            partition = self._replicas.find(topic.id, number)
            log = partition.log
            start = min(floor, partition.high_watermark)
            if log.config.is_deleted and start > log.log_start_offset:
                log.advance_log_start(start)
                partition.readers.notify()
                moved = True
        return moved

    async def _shared(self, group_id: str, topic: TopicImage) -> Positions:
        found: dict[int, int] = {}
        for number in range(len(topic.partitions)):
            state = await self._share_state.read_summary(group_id, topic.id, number)
            if state.start_offset >= 0:
                found[number] = state.done_offset
        return found
