"""A share partition: the records in flight, with their states, delivery counts and acquisition locks.

This is a state machine without I/O: the time and the batches of the log are parameters. Acquiring is volatile. An
acknowledgement is a `Change`: its records stay locked until it is persisted, and only then does it take effect. If that fails,
their state is rolled back. Lock time-outs and closed sessions release their records at once: if persisting that fails, only a
delivery count is lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from kio.schema.errors import ErrorCode

from catchment.broker.share.in_flight import (
    Acknowledgement,
    AcknowledgeType,
    AcquiredRecords,
    Change,
    FetchLimits,
    InFlightBatch,
    InFlightBatches,
    LogBatch,
    PendingAcknowledgement,
    RecordRules,
    RecordState,
)
from catchment.coordination.share_state.batches import StateBatch
from catchment.protocol.errors import ApiError

MAX_RECORDS_PER_ADMISSION: Final = 10_000
"""The most records of one batch that become in-flight together: a batch may hold so many that visiting each takes seconds."""


class SharePartition:
    def __init__(self, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        """Restore the persisted state. Offsets without a batch are available."""
        in_flight = self._in_flight = InFlightBatches(start_offset)
        for batch in sorted(batches):
            if batch.last_offset < in_flight.end_offset:
                continue
            if batch.first_offset > in_flight.end_offset:
                in_flight.append(batch.first_offset - 1, RecordState.AVAILABLE)
            state = _restored_state(batch.delivery_state)
            in_flight.append(batch.last_offset, state, batch.delivery_count)
        in_flight.drop_final()

    @property
    def start_offset(self) -> int:
        return self._in_flight.start_offset

    @property
    def end_offset(self) -> int:
        """The offset after the last record that was ever in flight."""
        return self._in_flight.end_offset

    @property
    def next_deadline_ms(self) -> int | None:
        """When the next acquisition lock times out. Locks with a pending change are checked after the change."""
        deadlines = [entry.deadline_ms for entry in self._in_flight if _is_held(entry)]
        return min(deadlines, default=None)

    @property
    def final_count(self) -> int:
        """The number of records in flight that are in a final state."""
        return sum(entry.size for entry in self._in_flight if entry.state.is_final)

    def next_fetch_offset(self, rules: RecordRules) -> int | None:
        """The offset at which to read for a member; None while no record can be acquired."""
        for entry in self._in_flight:
            if entry.is_acquirable:
                return entry.first_offset
        return self.end_offset if self._has_room(rules) else None

    def move_start(self, log_start_offset: int) -> None:
        """Drop the records below the log start offset."""
        self._in_flight.drop_below(log_start_offset)

    def acquire(
        self,
        member_id: str,
        fetch_offset: int,
        log_batches: Iterable[LogBatch],
        limits: FetchLimits,
        rules: RecordRules,
        now_ms: int,
    ) -> list[AcquiredRecords]:
        """Acquire the available records of the batches that were read from `fetch_offset` on."""
        acquired: list[AcquiredRecords] = []
        taken = 0
        position = fetch_offset
        for log_batch in log_batches:
            self._archive_gap(position, log_batch.base_offset - 1)
            position = log_batch.last_offset + 1
            if taken >= limits.max_records or not self._admit(log_batch, rules):
                break
            for entry in self._in_flight.within(log_batch.base_offset, log_batch.last_offset):
                if not entry.is_acquirable:
                    continue
                if not log_batch.is_deliverable:
                    entry.settle(RecordState.ARCHIVED)
                    continue
                is_isolated = entry.delivery_count >= rules.isolated_from_count
                size = _isolated_size(entry, log_batch, rules) if is_isolated else entry.size
                size = min(size, limits.max_records - taken) if limits.is_exact else size
                if size <= 0 or (is_isolated and taken):
                    return acquired
                for piece in self._in_flight.within(entry.first_offset, entry.first_offset + size - 1):
                    _lock(piece, member_id, now_ms + rules.lock_duration_ms)
                    _add(acquired, piece, limits.batch_size)
                taken += size
                if is_isolated:
                    return acquired
            if log_batch.last_offset >= self.end_offset:
                # The rest of the batch is not in flight yet, so nothing after it may be.
                break
        self._compact()
        return acquired

    def acknowledge(
        self, member_id: str, acknowledgements: Iterable[Acknowledgement], rules: RecordRules, now_ms: int
    ) -> PendingAcknowledgement:
        """Acknowledge all records or none: ApiError if the member has not acquired one. See `commit` and `roll_back`."""
        decided: list[tuple[InFlightBatch, AcknowledgeType]] = []
        previous_offset = -1
        for acknowledgement in acknowledgements:
            if acknowledgement.first_offset <= previous_offset:
                raise ApiError(ErrorCode.invalid_record_state, "An offset is acknowledged twice.")
            previous_offset = acknowledgement.last_offset
            if acknowledgement.last_offset >= self.end_offset:
                raise ApiError(ErrorCode.invalid_request, "Some of these records were never delivered.")
            for first_offset, last_offset, kind in _runs(acknowledgement):
                for entry in self._in_flight.within(first_offset, last_offset):
                    _check_held(entry, member_id)
                    if kind is AcknowledgeType.RENEW and not rules.may_renew:
                        raise ApiError(ErrorCode.invalid_record_state, "Renewing locks is not enabled for the group.")
                    decided.append((entry, kind))
        change = Change()
        batches: list[StateBatch] = []
        for entry, kind in decided:
            if kind is AcknowledgeType.RENEW:
                entry.deadline_ms = now_ms + rules.lock_duration_ms
                continue
            entry.change = change
            entry.next_state = _state_after(kind, entry, rules)
            _add_batch(batches, entry, entry.next_state)
        return PendingAcknowledgement(change, tuple(batches))

    def commit(self, pending: PendingAcknowledgement) -> None:
        """Apply a change that is persisted."""
        for entry in self._batches_of(pending):
            entry.settle(entry.next_state)
        self._compact()

    def roll_back(self, pending: PendingAcknowledgement) -> None:
        """Undo a change that could not be persisted: the member keeps the records until its lock times out."""
        for entry in self._batches_of(pending):
            entry.change = None

    def expire(self, rules: RecordRules, now_ms: int) -> tuple[StateBatch, ...]:
        """Release the records whose lock has timed out, and return the batches to persist."""
        return self._release(
            [entry for entry in self._in_flight if _is_held(entry) and entry.deadline_ms <= now_ms], rules
        )

    def release(self, member_id: str, rules: RecordRules) -> tuple[StateBatch, ...]:
        """Release the records of a member whose session has ended, and return the batches to persist."""
        return self._release(
            [entry for entry in self._in_flight if _is_held(entry) and entry.member_id == member_id], rules
        )

    def _has_room(self, rules: RecordRules) -> bool:
        return self.end_offset - self.start_offset < rules.max_record_locks

    def _admit(self, log_batch: LogBatch, rules: RecordRules) -> bool:
        """Whether records of the batch may be in flight. As in Kafka, the last batch may exceed the limit."""
        if log_batch.last_offset < self.end_offset:
            return True
        if not self._has_room(rules):
            return log_batch.base_offset < self.end_offset
        last_offset = min(log_batch.last_offset, self.end_offset + MAX_RECORDS_PER_ADMISSION - 1)
        self._in_flight.append(last_offset, RecordState.AVAILABLE)
        return True

    def _archive_gap(self, first_offset: int, last_offset: int) -> None:
        """Archive offsets without records, which compaction has removed."""
        for entry in self._in_flight.within(first_offset, last_offset):
            if entry.is_acquirable:
                entry.settle(RecordState.ARCHIVED)
        if last_offset >= self.end_offset:
            self._in_flight.append(last_offset, RecordState.ARCHIVED)

    def _batches_of(self, pending: PendingAcknowledgement) -> Iterator[InFlightBatch]:
        for batch in pending.batches:
            for entry in self._in_flight.touching(batch.first_offset, batch.last_offset):
                if entry.change is pending.change:
                    yield entry

    def _release(self, held: Sequence[InFlightBatch], rules: RecordRules) -> tuple[StateBatch, ...]:
        batches: list[StateBatch] = []
        for entry in held:
            state = _state_after(AcknowledgeType.RELEASE, entry, rules)
            _add_batch(batches, entry, state)
            entry.settle(state)
        self._compact()
        return tuple(batches)

    def _compact(self) -> None:
        self._in_flight.drop_final()
        self._in_flight.merge()


def _restored_state(delivery_state: int) -> RecordState:
    """The state after a restart: acquisition locks are gone."""
    if delivery_state == RecordState.ACKNOWLEDGED:
        return RecordState.ACKNOWLEDGED
    return RecordState.AVAILABLE if delivery_state <= RecordState.ACQUIRED else RecordState.ARCHIVED


def _is_held(entry: InFlightBatch) -> bool:
    return entry.state is RecordState.ACQUIRED and entry.change is None


def _check_held(entry: InFlightBatch, member_id: str) -> None:
    if not _is_held(entry):
        raise ApiError(
            ErrorCode.invalid_record_state,
            f"Offsets {entry.first_offset} to {entry.last_offset} cannot be acknowledged: they are not acquired.",
        )
    if entry.member_id != member_id:
        raise ApiError(
            ErrorCode.invalid_record_state,
            f"Offsets {entry.first_offset} to {entry.last_offset} are acquired by another member.",
        )


def _state_after(kind: AcknowledgeType, entry: InFlightBatch, rules: RecordRules) -> RecordState:
    if kind is AcknowledgeType.ACCEPT:
        return RecordState.ACKNOWLEDGED
    if kind is AcknowledgeType.RELEASE and entry.delivery_count < rules.max_delivery_count:
        return RecordState.AVAILABLE
    return RecordState.ARCHIVED


def _isolated_size(entry: InFlightBatch, log_batch: LogBatch, rules: RecordRules) -> int:
    """How many records to deliver of a batch that failed often: half as many with every further delivery, at last one."""
    if entry.delivery_count >= rules.max_delivery_count - 1 and rules.max_delivery_count > 2:
        return 1
    size = log_batch.last_offset - log_batch.base_offset + 1
    return min(entry.size, max(1, size >> (entry.delivery_count - rules.isolated_from_count + 1)))


def _lock(entry: InFlightBatch, member_id: str, deadline_ms: int) -> None:
    entry.state = RecordState.ACQUIRED
    entry.delivery_count += 1
    entry.member_id = member_id
    entry.deadline_ms = deadline_ms


def _add(acquired: list[AcquiredRecords], entry: InFlightBatch, batch_size: int) -> None:
    """Add acquired records, joined with the last entry if that is not full yet."""
    if acquired:
        last = acquired[-1]
        if (
            last.last_offset + 1 == entry.first_offset
            and last.delivery_count == entry.delivery_count
            and last.last_offset - last.first_offset + 1 < batch_size
        ):
            acquired[-1] = last._replace(last_offset=entry.last_offset)
            return
    acquired.append(AcquiredRecords(entry.first_offset, entry.last_offset, entry.delivery_count))


def _add_batch(batches: list[StateBatch], entry: InFlightBatch, state: RecordState) -> None:
    if batches:
        last = batches[-1]
        if last.last_offset + 1 == entry.first_offset and last[2:] == (state, entry.delivery_count):
            batches[-1] = last._replace(last_offset=entry.last_offset)
            return
    batches.append(StateBatch(entry.first_offset, entry.last_offset, state.value, entry.delivery_count))


def _runs(acknowledgement: Acknowledgement) -> Iterator[tuple[int, int, AcknowledgeType]]:
    """The acknowledgement as ranges of offsets with one type."""
    types = acknowledgement.types
    first_offset = acknowledgement.first_offset
    if len(types) == 1:
        yield first_offset, acknowledgement.last_offset, AcknowledgeType(types[0])
        return
    begin = 0
    for index in range(1, len(types) + 1):
        if index == len(types) or types[index] != types[begin]:
            yield first_offset + begin, first_offset + index - 1, AcknowledgeType(types[begin])
            begin = index
