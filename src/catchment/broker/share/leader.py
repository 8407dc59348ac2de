"""The share-partition leader: loads the share state, persists changes, and releases records when acquisition locks time out.

The state is read once, with the first fetch of a member, for the leader epoch of the partition; writes of older leaders are
fenced from then on. An acknowledgement is answered when it is persisted. If the state has no start offset yet, it is chosen
here and persisted before the first record is delivered: after a restart, another choice could skip the records in between.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final, Protocol
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.broker.share.in_flight import (
    Acknowledgement,
    AcquiredRecords,
    FetchLimits,
    LogBatch,
    RecordRules,
    RecordState,
)
from catchment.broker.share.partition import SharePartition
from catchment.coordination.share_state.batches import NO_START, StateBatch
from catchment.coordination.share_state.records import ShareKey, ShareState
from catchment.ports.clock import Clock
from catchment.protocol.errors import ApiError
from catchment.replication.partition import Partition
from catchment.replication.waiting import WaitingReaders

_logger = logging.getLogger(__name__)

_ERRORS_FOR_MEMBERS: Final = {
    ErrorCode.fenced_leader_epoch: ErrorCode.not_leader_or_follower,
    ErrorCode.not_coordinator: ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress: ErrorCode.coordinator_not_available,
}
"""The error codes for members when the state cannot be read or written, as in Kafka. Others are passed on unchanged."""


class Persister(Protocol):
    """Reads and writes the state of share partitions."""

    async def read(self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int) -> ShareState: ...

    async def write(
        self,
        group_id: str,
        topic_id: UUID,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        batches: Sequence[StateBatch],
        delivery_complete_count: int,
    ) -> None: ...


class ShareLeader:
    def __init__(
        self,
        key: ShareKey,
        partition: Partition,
        persister: Persister,
        clock: Clock,
        rules: Callable[[], RecordRules],
        first_offset: Callable[[Partition], int],
        fenced: Callable[[ShareLeader], None],
        run: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        """`first_offset` chooses the start offset of a new group; `fenced` is called when another leader has taken over the state.

        `run` starts a background task that ends with the broker.
        """
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.waiting = WaitingReaders()
        """Fetches that wait for available records."""
        self.error: ApiError | None = None
        """The error with which loading the state failed."""
        self._persister = persister
        self._clock = clock
        self._rules = rules
        self._first_offset = first_offset
        self._fenced = fenced
        self._run = run
        self._state_epoch = 0
        self._is_closed = False
        self._records: SharePartition | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._run(self._load())

    def close(self) -> None:
        """Stop the timer. Writes in progress continue."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._records = None
        self.waiting.notify()

    @property
    def records(self) -> SharePartition | None:
        """The records in flight; None while the state is not loaded, and after `close`."""
        records = self._records
        if records is not None:
            records.move_start(self.partition.log.log_start_offset)
        return records

    def next_fetch_offset(self) -> int | None:
        """The offset at which to read for a member; None while no record can be acquired."""
        records = self.records
        return None if records is None else records.next_fetch_offset(self._rules())

    def acquire(
        self, member_id: str, fetch_offset: int, log_batches: Sequence[LogBatch], limits: FetchLimits
    ) -> list[AcquiredRecords]:
        records = self.records
        if records is None:
            return []
        acquired = records.acquire(member_id, fetch_offset, log_batches, limits, self._rules(), self._now_ms())
        self._set_timer()
        return acquired

    async def acknowledge(self, member_id: str, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Return when the acknowledgements are persisted; ApiError if they are rejected or cannot be persisted."""
        records = self.records
        if records is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition)
        pending = records.acknowledge(member_id, acknowledgements, self._rules(), self._now_ms())
        if pending.batches:
            try:
                await self._persist(records, pending.batches, newly_final=_final_count(pending.batches))
            except ApiError as error:
                records.roll_back(pending)
                raise ApiError(_ERRORS_FOR_MEMBERS.get(error.code, error.code), error.message) from error
            except BaseException:
                # The member has disconnected, or an unexpected error: it is unknown whether the write was persisted, as after a time-out.
                records.roll_back(pending)
                raise
            else:
                records.commit(pending)
            finally:
                self._set_timer()
                self.waiting.notify()
        else:
            self._set_timer()

    def release(self, member_id: str) -> None:
        """Release the records that a member has acquired."""
        if self._records is not None:
            self._persist_later(self._records, self._records.release(member_id, self._rules()))

    async def _load(self) -> None:
        key = self.key
        try:
            state = await self._persister.read(key.group_id, key.topic_id, key.partition, self.leader_epoch)
            start_offset = state.start_offset
            self._state_epoch = state.state_epoch
            if start_offset == NO_START:
                records = SharePartition(self._first_offset(self.partition))
                await self._persist(records, ())
            else:
                records = SharePartition(start_offset, state.batches)
        except ApiError as error:
            _logger.debug("the share state of %s is not available: %s", key, error)
            self.error = ApiError(_ERRORS_FOR_MEMBERS.get(error.code, error.code), error.message)
        except Exception:
            _logger.exception("the share state of %s could not be loaded", key)
            self.error = ApiError(ErrorCode.unknown_server_error)
        else:
            # If it was closed meanwhile, it must not deliver records: another leader may have been loaded.
            self._records = None if self._is_closed else records
        self.waiting.notify()

    async def _persist(self, records: SharePartition, batches: Sequence[StateBatch], newly_final: int = 0) -> None:
        """Write the state with the current start offset: a later write must never carry an earlier one."""
        key = self.key
        try:
            await self._persister.write(
                key.group_id,
                key.topic_id,
                key.partition,
                self._state_epoch,
                self.leader_epoch,
                records.start_offset,
                batches,
                records.final_count + newly_final,
            )
        except ApiError as error:
            if error.code in (ErrorCode.fenced_state_epoch, ErrorCode.fenced_leader_epoch):
                self._fenced(self)
            raise

    def _persist_later(self, records: SharePartition, batches: Sequence[StateBatch]) -> None:
        if batches:
            self._run(self._try_to_persist(records, batches))
            self.waiting.notify()
        self._set_timer()

    async def _try_to_persist(self, records: SharePartition, batches: Sequence[StateBatch]) -> None:
        with contextlib.suppress(ApiError):
            await self._persist(records, batches)

    def _set_timer(self) -> None:
        """Set the timer for the next acquisition lock time-out."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        deadline_ms = None if self._records is None else self._records.next_deadline_ms
        if deadline_ms is not None:
            delay_s = max(deadline_ms - self._now_ms(), 0) / 1000
            self._timer = asyncio.get_running_loop().call_later(delay_s, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        if self._records is not None:
            self._persist_later(self._records, self._records.expire(self._rules(), self._now_ms()))

    def _now_ms(self) -> int:
        return int(self._clock.monotonic_s() * 1000)


def _final_count(batches: Sequence[StateBatch]) -> int:
    return sum(
        batch.last_offset - batch.first_offset + 1 for batch in batches if RecordState(batch.delivery_state).is_final
    )
