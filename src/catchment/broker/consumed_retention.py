"""Deletion of what is consumed: the setting `catchment.retention.consumed.by`.

Only offsets count that cannot be lost any more: a commit that a crash may take back would let a group come back to records
that are gone. The group's word is the committed offset; what an open transaction would commit is not committed.
"""

import logging

from catchment.broker.coordinators.groups import GroupCoordinator
from catchment.cluster.controller import Controller
from catchment.cluster.metadata import TopicImage
from catchment.coordination.consumed import floors
from catchment.protocol.errors import ApiError
from catchment.replication.replicas import Replicas

_logger = logging.getLogger(__name__)


class ConsumedRetention:
    def __init__(self, controller: Controller, replicas: Replicas, groups: GroupCoordinator) -> None:
        self._controller = controller
        self._replicas = replicas
        self._groups = groups

    async def apply(self) -> None:
        """Move the start of every log that asks for it beyond what its consumers have, and write the starts down."""
        moved = False
        for topic in list(self._controller.image.topics.values()):
            named = self._replicas.log_config(topic.settings).retention_consumed_by
            if named and not topic.is_internal:
                try:
                    moved |= await self._release(topic, named)
                except ApiError as error:
                    _logger.info("what groups have consumed of %s is not known now: %s", topic.name, error)
        if moved:
            for directory in self._replicas.directories:
                directory.checkpoint_log_starts()

    async def _release(self, topic: TopicImage, named: tuple[str, ...]) -> bool:
        positions = await self._groups.consumed(topic.name)
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
