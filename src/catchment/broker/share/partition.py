"""A share partition: which records of a partition a group has in flight, who holds each, and what became of it.

Time comes in as a parameter, and so does what lies in the log: this is a state machine without I/O. Acquiring is volatile.
An acknowledgement is a `Change`: its records are held until it is persisted, and only then does it take effect; if that
fails, they are as they were. Locks that end and members that go set their records free at once, because a failure to persist
that loses nothing but a delivery count.
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
    Decision,
    FetchLimits,
    InFlightBatch,
    InFlightBatches,
    LogBatch,
    RecordRules,
    RecordState,
)
from catchment.coordination.share_state.batches import StateBatch
from catchment.protocol.errors import ApiError

MOST_TAKEN_UP_AT_ONCE: Final = 10_000
"""Records of one batch that come into flight together: a batch may hold so many that to look at each takes seconds."""


class SharePartition:
    def __init__(self, start_offset: int, batches: Iterable[StateBatch] = ()) -> None:
        """Take up what was persisted. Offsets that it does not mention have not been decided on."""
        spans = self._spans = InFlightBatches(start_offset)
        for batch in sorted(batches):
            if batch.last_offset < spans.end_offset:
                continue
            if batch.first_offset > spans.end_offset:
                spans.append(batch.first_offset - 1, RecordState.AVAILABLE)
            state = _restored_state(batch.delivery_state)
            spans.append(batch.last_offset, state, batch.delivery_count)
        spans.drop_final()

    @property
    def start_offset(self) -> int:
        return self._spans.start_offset

    @property
    def end_offset(self) -> int:
        """Behind the last record that was ever handed out."""
        return self._spans.end_offset

    @property
    def next_deadline_ms(self) -> int | None:
        """When the next lock ends that can end; one under change is looked at when the change is over."""
        deadlines = [span.deadline_ms for span in self._spans if _is_held(span)]
        return min(deadlines, default=None)

    @property
    def final_count(self) -> int:
        """How many records in flight are done, though earlier ones are not."""
        return sum(span.size for span in self._spans if span.state.is_final)

    def next_fetch_offset(self, rules: RecordRules) -> int | None:
        """Where to read for a member that wants records; None while there is nothing that could be handed out."""
        for span in self._spans:
            if span.is_acquirable:
                return span.first_offset
        return self.end_offset if self._has_room(rules) else None

    def move_start(self, log_start_offset: int) -> None:
        """Forget what the log no longer holds."""
        self._spans.drop_below(log_start_offset)

    def acquire(
        self,
        member_id: str,
        fetch_offset: int,
        extents: Iterable[LogBatch],
        limits: FetchLimits,
        rules: RecordRules,
        now_ms: int,
    ) -> list[AcquiredRecords]:
        """Lock what is free of the batches that were read from `fetch_offset` on."""
        acquired: list[AcquiredRecords] = []
        taken = 0
        position = fetch_offset
        for extent in extents:
            self._archive_gap(position, extent.base_offset - 1)
            position = extent.last_offset + 1
            if taken >= limits.max_records or not self._admit(extent, rules):
                break
            for span in self._spans.within(extent.base_offset, extent.last_offset):
                if not span.is_acquirable:
                    continue
                if not extent.is_deliverable:
                    span.settle(RecordState.ARCHIVED)
                    continue
                is_isolated = span.delivery_count >= rules.isolated_from_count
                size = _portion(span, extent, rules) if is_isolated else span.size
                size = min(size, limits.max_records - taken) if limits.is_exact else size
                if size <= 0 or (is_isolated and taken):
                    return acquired
                for piece in self._spans.within(span.first_offset, span.first_offset + size - 1):
                    _lock(piece, member_id, now_ms + rules.lock_duration_ms)
                    _add(acquired, piece, limits.batch_size)
                taken += size
                if is_isolated:
                    return acquired
            if extent.last_offset >= self.end_offset:
                # The rest of the batch is not in flight yet, so nothing behind it may be.
                break
        self._tidy()
        return acquired

    def acknowledge(
        self, member_id: str, acknowledgements: Iterable[Acknowledgement], rules: RecordRules, now_ms: int
    ) -> Decision:
        """All of it or nothing: ApiError if the member does not hold one of the records. See `commit` and `roll_back`."""
        decided: list[tuple[InFlightBatch, AcknowledgeType]] = []
        previous_offset = -1
        for acknowledgement in acknowledgements:
            if acknowledgement.first_offset <= previous_offset:
                raise ApiError(ErrorCode.invalid_record_state, "An offset is acknowledged twice.")
            previous_offset = acknowledgement.last_offset
            if acknowledgement.last_offset >= self.end_offset:
                raise ApiError(ErrorCode.invalid_request, "Some of these records were never handed out.")
            for first_offset, last_offset, kind in _runs(acknowledgement):
                for span in self._spans.within(first_offset, last_offset):
                    _check_held(span, member_id)
                    if kind is AcknowledgeType.RENEW and not rules.may_renew:
                        raise ApiError(ErrorCode.invalid_record_state, "Renewing locks is not enabled for the group.")
                    decided.append((span, kind))
        change = Change()
        batches: list[StateBatch] = []
        for span, kind in decided:
            if kind is AcknowledgeType.RENEW:
                span.deadline_ms = now_ms + rules.lock_duration_ms
                continue
            span.change = change
            span.next_state = _state_after(kind, span, rules)
            _add_batch(batches, span, span.next_state)
        return Decision(change, tuple(batches))

    def commit(self, decision: Decision) -> None:
        """The change is persisted."""
        for span in self._batches_of(decision):
            span.settle(span.next_state)
        self._tidy()

    def roll_back(self, decision: Decision) -> None:
        """The change could not be persisted: the member still holds the records, until its lock ends."""
        for span in self._batches_of(decision):
            span.change = None

    def expire(self, rules: RecordRules, now_ms: int) -> tuple[StateBatch, ...]:
        """Set records free whose lock has ended; what of it should be persisted."""
        return self._set_free([span for span in self._spans if _is_held(span) and span.deadline_ms <= now_ms], rules)

    def release(self, member_id: str, rules: RecordRules) -> tuple[StateBatch, ...]:
        """Set free what a member holds, because it has gone; what of it should be persisted."""
        return self._set_free([span for span in self._spans if _is_held(span) and span.member_id == member_id], rules)

    def _has_room(self, rules: RecordRules) -> bool:
        return self.end_offset - self.start_offset < rules.max_record_locks

    def _admit(self, extent: LogBatch, rules: RecordRules) -> bool:
        """Whether records of the batch may be in flight; as with Kafka, the last batch may exceed the bound."""
        if extent.last_offset < self.end_offset:
            return True
        if not self._has_room(rules):
            return extent.base_offset < self.end_offset
        last_offset = min(extent.last_offset, self.end_offset + MOST_TAKEN_UP_AT_ONCE - 1)
        self._spans.append(last_offset, RecordState.AVAILABLE)
        return True

    def _archive_gap(self, first_offset: int, last_offset: int) -> None:
        """There are no records at these offsets: compaction took them."""
        for span in self._spans.within(first_offset, last_offset):
            if span.is_acquirable:
                span.settle(RecordState.ARCHIVED)
        if last_offset >= self.end_offset:
            self._spans.append(last_offset, RecordState.ARCHIVED)

    def _batches_of(self, decision: Decision) -> Iterator[InFlightBatch]:
        for batch in decision.batches:
            for span in self._spans.touching(batch.first_offset, batch.last_offset):
                if span.change is decision.change:
                    yield span

    def _set_free(self, held: Sequence[InFlightBatch], rules: RecordRules) -> tuple[StateBatch, ...]:
        batches: list[StateBatch] = []
        for span in held:
            state = _state_after(AcknowledgeType.RELEASE, span, rules)
            _add_batch(batches, span, state)
            span.settle(state)
        self._tidy()
        return tuple(batches)

    def _tidy(self) -> None:
        self._spans.drop_final()
        self._spans.join()


def _restored_state(delivery_state: int) -> RecordState:
    """Whoever had acquired a record before does not hold it any more."""
    if delivery_state == RecordState.ACKNOWLEDGED:
        return RecordState.ACKNOWLEDGED
    return RecordState.AVAILABLE if delivery_state <= RecordState.ACQUIRED else RecordState.ARCHIVED


def _is_held(span: InFlightBatch) -> bool:
    return span.state is RecordState.ACQUIRED and span.change is None


def _check_held(span: InFlightBatch, member_id: str) -> None:
    if not _is_held(span):
        raise ApiError(
            ErrorCode.invalid_record_state,
            f"Offsets {span.first_offset} to {span.last_offset} cannot be acknowledged: they are not acquired.",
        )
    if span.member_id != member_id:
        raise ApiError(
            ErrorCode.invalid_record_state,
            f"Offsets {span.first_offset} to {span.last_offset} are acquired by another member.",
        )


def _state_after(kind: AcknowledgeType, span: InFlightBatch, rules: RecordRules) -> RecordState:
    if kind is AcknowledgeType.ACCEPT:
        return RecordState.ACKNOWLEDGED
    if kind is AcknowledgeType.RELEASE and span.delivery_count < rules.max_delivery_count:
        return RecordState.AVAILABLE
    return RecordState.ARCHIVED


def _portion(span: InFlightBatch, extent: LogBatch, rules: RecordRules) -> int:
    """How many records to hand out of a span that failed often: half as many with every further try, at last one."""
    if span.delivery_count >= rules.max_delivery_count - 1 and rules.max_delivery_count > 2:
        return 1
    size = extent.last_offset - extent.base_offset + 1
    return min(span.size, max(1, size >> (span.delivery_count - rules.isolated_from_count + 1)))


def _lock(span: InFlightBatch, member_id: str, deadline_ms: int) -> None:
    span.state = RecordState.ACQUIRED
    span.delivery_count += 1
    span.member_id = member_id
    span.deadline_ms = deadline_ms


def _add(acquired: list[AcquiredRecords], span: InFlightBatch, batch_size: int) -> None:
    """Note a span that was acquired, in one run with the last if that is not long enough yet."""
    if acquired:
        last = acquired[-1]
        if (
            last.last_offset + 1 == span.first_offset
            and last.delivery_count == span.delivery_count
            and last.last_offset - last.first_offset + 1 < batch_size
        ):
            acquired[-1] = last._replace(last_offset=span.last_offset)
            return
    acquired.append(AcquiredRecords(span.first_offset, span.last_offset, span.delivery_count))


def _add_batch(batches: list[StateBatch], span: InFlightBatch, state: RecordState) -> None:
    if batches:
        last = batches[-1]
        if last.last_offset + 1 == span.first_offset and last[2:] == (state, span.delivery_count):
            batches[-1] = last._replace(last_offset=span.last_offset)
            return
    batches.append(StateBatch(span.first_offset, span.last_offset, state.value, span.delivery_count))


def _runs(acknowledgement: Acknowledgement) -> Iterator[tuple[int, int, AcknowledgeType]]:
    """The acknowledgement as runs of offsets of one type."""
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
