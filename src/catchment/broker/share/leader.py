"""A share partition on the broker that leads the partition: loaded from its state, persisted, woken when locks end.

The state is read once, when a member first wants records, for the leader epoch in which the partition is led; whatever an
older leader still writes is refused from then on. An acknowledgement is answered when it is persisted. Where the state says
that nobody has decided yet where the group begins, that is decided here and persisted before the first record goes out: a
restart must not decide otherwise and pass over what came between.
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

_TOLD_TO_MEMBERS: Final = {
    ErrorCode.fenced_leader_epoch: ErrorCode.not_leader_or_follower,
    ErrorCode.not_coordinator: ErrorCode.coordinator_not_available,
    ErrorCode.coordinator_load_in_progress: ErrorCode.coordinator_not_available,
}
"""What a member is told when the state cannot be read or written, as in Kafka; other errors are told as they are."""


class Persister(Protocol):
    """Who keeps the state of share partitions."""

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
        """`first_offset` decides where the group begins; `fenced` hears that the state is somebody else's by now.

        `run` lets work go on by itself, and ends it with the broker.
        """
        self.key = key
        self.partition = partition
        self.leader_epoch = partition.leader_epoch
        self.waiting = WaitingReaders()
        """Members that wait for records to become free."""
        self.error: ApiError | None = None
        """Why the state could not be loaded."""
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
        """Stop the clock; what is being persisted goes on."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._records = None
        self.waiting.notify()

    @property
    def records(self) -> SharePartition | None:
        """What is in flight; None while that is not known, or no longer ours."""
        records = self._records
        if records is not None:
            records.move_start(self.partition.log.log_start_offset)
        return records

    def next_fetch_offset(self) -> int | None:
        """Where there may be records for a member; None while there are none to hand out."""
        records = self.records
        return None if records is None else records.next_fetch_offset(self._rules())

    def acquire(
        self, member_id: str, fetch_offset: int, extents: Sequence[LogBatch], limits: FetchLimits
    ) -> list[AcquiredRecords]:
        records = self.records
        if records is None:
            return []
        acquired = records.acquire(member_id, fetch_offset, extents, limits, self._rules(), self._now_ms())
        self._set_timer()
        return acquired

    async def acknowledge(self, member_id: str, acknowledgements: Sequence[Acknowledgement]) -> None:
        """Answer when it is persisted; ApiError if it is refused or cannot be."""
        records = self.records
        if records is None:
            raise ApiError(ErrorCode.unknown_topic_or_partition)
        decision = records.acknowledge(member_id, acknowledgements, self._rules(), self._now_ms())
        if decision.batches:
            try:
                await self._persist(records, decision.batches, newly_final=_final_count(decision.batches))
            except ApiError as error:
                records.roll_back(decision)
                raise ApiError(_TOLD_TO_MEMBERS.get(error.code, error.code), error.message) from error
            except BaseException:
                # The member is gone, or a fault: whether it is persisted is not known, as when a write takes too long.
                records.roll_back(decision)
                raise
            else:
                records.commit(decision)
            finally:
                self._set_timer()
                self.waiting.notify()
        else:
            self._set_timer()

    def release(self, member_id: str) -> None:
        """Set free what a member holds."""
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
            _logger.debug("the state of %s is not there: %s", key, error)
            self.error = ApiError(_TOLD_TO_MEMBERS.get(error.code, error.code), error.message)
        except Exception:
            _logger.exception("the state of %s could not be loaded", key)
            self.error = ApiError(ErrorCode.unknown_server_error)
        else:
            # One that was closed meanwhile hands out nothing: another one may have been loaded in its place.
            self._records = None if self._is_closed else records
        self.waiting.notify()

    async def _persist(self, records: SharePartition, batches: Sequence[StateBatch], newly_final: int = 0) -> None:
        """The start is the one at this moment: a later write must never carry an earlier one."""
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
        """Wake up when the next lock ends."""
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
