"""Write the markers that end a transaction on the partitions that this broker leads.

All markers are appended before anything is awaited, and a partition's outcome is returned once its marker is durable. A
partition of the offsets topic belongs to the group coordinator, which commits or drops the pending offsets in the same step
that appends the marker.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.broker.coordinators.groups import GroupCoordinator
from catchment.broker.coordinators.internal_topics import OFFSETS_TOPIC
from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.groups.offsets import TopicPartition
from catchment.protocol.errors import ApiError
from catchment.replication.partition import Partition
from catchment.replication.replicas import Replicas
from catchment.storage.control_record import TransactionMarker, encode_marker

_logger = logging.getLogger(__name__)

_ALL = -1
_FIRST_WITH_EPOCH_BUMP = 2
"""From this transaction version on, a marker has a higher epoch than the records before it (KIP-890)."""


class MarkerToWrite(NamedTuple):
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    is_commit: bool
    transaction_version: int = 0


class AppendedMarkers:
    """The markers of one transaction: appended where that was possible, and perhaps not durable yet."""

    def __init__(
        self, replicas: Replicas, groups: GroupCoordinator, marker: MarkerToWrite, partitions: Sequence[TopicPartition]
    ) -> None:
        self._replicas = replicas
        self._groups = groups
        self._marker = marker
        self._outcomes: dict[TopicPartition, ErrorCode] = {}
        self._waiting: list[tuple[TopicPartition, asyncio.Future[None]]] = []
        for name, number in partitions:
            self.append(name, number)

    def append(self, name: str, number: int) -> None:
        self._outcomes[name, number] = ErrorCode.none
        try:
            durable = _append(self._replicas.find(name, number), self._groups, self._marker)
        except ApiError as error:
            self._outcomes[name, number] = _marker_error(error.code)
        except Exception:
            # The other partitions have their markers: a retry of all would write those a second time.
            _logger.exception("could not write a transaction marker to %s-%d", name, number)
            self._outcomes[name, number] = ErrorCode.unknown_server_error
        else:
            if durable is not None:
                # A cancelled delivery does not await the outcome.
                durable.add_done_callback(_retrieve)
                self._waiting.append(((name, number), durable))

    async def outcomes(self) -> dict[TopicPartition, ErrorCode]:
        """The outcome for each partition, once it is known for all; `none` where the marker is durable."""
        for partition, durable in self._waiting:
            try:
                await durable
            except ApiError as error:
                self._outcomes[partition] = _marker_error(error.code)
        return self._outcomes


async def write_markers(
    replicas: Replicas, groups: GroupCoordinator, marker: MarkerToWrite, partitions: Sequence[TopicPartition]
) -> dict[TopicPartition, ErrorCode]:
    """The outcome for each partition, once it is known for all; `none` where the marker is durable."""
    return await AppendedMarkers(replicas, groups, marker, partitions).outcomes()


def _retrieve(durable: asyncio.Future[None]) -> None:
    if not durable.cancelled():
        durable.exception()


def _append(partition: Partition, groups: GroupCoordinator, marker: MarkerToWrite) -> asyncio.Future[None] | None:
    """A future that is done once the marker is durable, None if it is already; ApiError if it must not be written."""
    if marker.transaction_version >= _FIRST_WITH_EPOCH_BUMP:
        partition.log.producers.check_bumped_epoch(marker.producer_id, marker.producer_epoch)
    control = TransactionMarker(marker.is_commit, marker.coordinator_epoch)
    durable: asyncio.Future[None] | None
    if partition.topic == OFFSETS_TOPIC:
        producer = Producer(marker.producer_id, marker.producer_epoch)
        durable = groups.end_transaction(partition.number, producer, control)
    else:
        batch = encode_marker(
            control,
            producer_id=marker.producer_id,
            producer_epoch=marker.producer_epoch,
            timestamp_ms=partition.log.now_ms(),
        )
        durable = partition.durable(partition.append(memoryview(batch), _ALL, is_from_client=False))
    # A verification that was requested before this marker is out of date.
    partition.verifications.cancel(marker.producer_id)
    return durable


def _marker_error(code: ErrorCode) -> ErrorCode:
    """Transaction coordinators do not expect errors of group coordinators: NOT_LEADER_OR_FOLLOWER makes them look up the leader."""
    if code in (
        ErrorCode.coordinator_not_available,
        ErrorCode.coordinator_load_in_progress,
        ErrorCode.not_coordinator,
    ):
        return ErrorCode.not_leader_or_follower
    return code
