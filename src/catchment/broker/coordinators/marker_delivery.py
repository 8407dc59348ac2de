"""Sends the markers of prepared transactions to their partitions, until every partition has its marker."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence

from kio.schema.errors import ErrorCode

from catchment.broker.transactions.markers import MarkerToWrite
from catchment.coordination.transactions.commands import MarkersToWrite
from catchment.coordination.transactions.records import TopicPartition

_logger = logging.getLogger(__name__)

_FIRST_DELAY_S = 0.01
_MAX_DELAY_S = 1.0

WriteMarkers = Callable[[MarkerToWrite, Sequence[TopicPartition]], Awaitable[Mapping[TopicPartition, ErrorCode]]]


class MarkerDelivery:
    """The marker deliveries of one shard. They end with it, and the shard that replaces it starts them again."""

    def __init__(self, write: WriteMarkers, exists: Callable[[TopicPartition], bool]) -> None:
        """`exists` returns whether the cluster has such a partition: those of deleted topics need no marker."""
        self._write = write
        self._exists = exists
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._is_closed = False

    def send(
        self,
        markers: MarkersToWrite,
        coordinator_epoch: int,
        is_needed: Callable[[], bool],
        delivered: Callable[[], None],
    ) -> None:
        """Call `delivered` when every partition has its marker. Stop once the markers are no longer needed."""
        if self._is_closed:
            return
        transactional_id = markers.transactional_id
        if (former := self._tasks.pop(transactional_id, None)) is not None:
            former.cancel()
        task = asyncio.get_running_loop().create_task(self._deliver(markers, coordinator_epoch, is_needed, delivered))
        self._tasks[transactional_id] = task
        task.add_done_callback(lambda _: self._forget(transactional_id, task))

    def close(self) -> None:
        self._is_closed = True
        for task in self._tasks.values():
            task.cancel()

    def _forget(self, transactional_id: str, task: "asyncio.Task[None]") -> None:
        if self._tasks.get(transactional_id) is task:
            del self._tasks[transactional_id]
        if not task.cancelled() and (error := task.exception()) is not None:
            _logger.error("the transaction of %s could not be completed", transactional_id, exc_info=error)

    async def _deliver(
        self,
        markers: MarkersToWrite,
        coordinator_epoch: int,
        is_needed: Callable[[], bool],
        delivered: Callable[[], None],
    ) -> None:
        marker = MarkerToWrite(
            markers.producer.producer_id,
            markers.producer.epoch,
            coordinator_epoch,
            markers.is_commit,
            markers.client_version,
        )
        left: Sequence[TopicPartition] = markers.partitions
        delay_s = _FIRST_DELAY_S
        while is_needed():
            outcomes = await self._try(marker, left)
            if ErrorCode.transaction_coordinator_fenced in outcomes.values():
                _logger.warning("another coordinator has taken over transactional id %s", markers.transactional_id)
                return
            left = [partition for partition, code in outcomes.items() if not self._is_done(partition, code)]
            if not left:
                delivered()
                return
            _logger.debug("markers of transactional id %s are still missing: %s", markers.transactional_id, outcomes)
            await asyncio.sleep(delay_s)
            delay_s = min(delay_s * 2, _MAX_DELAY_S)

    async def _try(
        self, marker: MarkerToWrite, partitions: Sequence[TopicPartition]
    ) -> Mapping[TopicPartition, ErrorCode]:
        try:
            return await self._write(marker, partitions)
        except Exception:
            # An unexpected error, possibly temporary: readers of committed data wait for these markers.
            _logger.exception("the markers of producer %d could not be written; trying again", marker.producer_id)
            return dict.fromkeys(partitions, ErrorCode.unknown_server_error)

    def _is_done(self, partition: TopicPartition, code: ErrorCode) -> bool:
        if code is ErrorCode.unknown_topic_or_partition:
            return not self._exists(partition)
        # A partition with a later epoch of the producer has the marker already: the epoch is bumped after that.
        return code in (ErrorCode.none, ErrorCode.invalid_producer_epoch)
