"""The records in flight of a share partition, as runs of offsets that share one state.

The spans lie in a row, without gap or overlap, from the start offset (everything below it is done for good) to the end offset
(nothing from there on was ever handed out). A member usually takes and acknowledges whole batches, so a span stands for many
records; it is cut where an acknowledgement names a part of it, and neighbours that have become alike are joined again.
"""

from __future__ import annotations

import enum
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Final, NamedTuple

from catchment.coordination.share_state.batches import StateBatch

_FIRST_OFFSET: Final = attrgetter("first_offset")
_FEW_SPANS: Final = 64


class RecordState(enum.IntEnum):
    """What became of a record, with the numbers under which Kafka persists it."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        return self >= RecordState.ACKNOWLEDGED


class Change:
    """What an acknowledgement will make of some spans, once that is persisted. It is known by its identity."""

    __slots__ = ()


@dataclass(slots=True)
class InFlightBatch:
    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int = 0
    member_id: str = ""
    """Who has acquired the records."""
    deadline_ms: int = 0
    """When the lock of whoever has acquired them ends."""
    change: Change | None = None
    """Under way: until it is persisted, nobody else may touch the span."""
    next_state: RecordState = RecordState.AVAILABLE

    @property
    def size(self) -> int:
        return self.last_offset - self.first_offset + 1

    @property
    def is_acquirable(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.change is None

    def settle(self, state: RecordState) -> None:
        """Nobody holds the records any more."""
        self.state = state
        self.member_id = ""
        self.deadline_ms = 0
        self.change = None

    def is_like(self, other: InFlightBatch) -> bool:
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.deadline_ms == other.deadline_ms
            and self.change is None
            and other.change is None
        )


class InFlightBatches:
    __slots__ = ("_many", "_spans", "end_offset", "start_offset")

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self._spans: list[InFlightBatch] = []
        self._many = _FEW_SPANS

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def append(self, last_offset: int, state: RecordState, delivery_count: int = 0) -> None:
        """Let the row reach to `last_offset`."""
        self._spans.append(InFlightBatch(self.end_offset, last_offset, state, delivery_count))
        self.end_offset = last_offset + 1

    def within(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """The spans of exactly these offsets, as far as they lie in the row; the outer ones are cut to fit."""
        first_offset = max(first_offset, self.start_offset)
        last_offset = min(last_offset, self.end_offset - 1)
        if first_offset > last_offset:
            return []
        begin = self._cut(first_offset)
        return self._spans[begin : self._cut(last_offset + 1)]

    def touching(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """The spans that hold any of these offsets, uncut."""
        begin = max(bisect_right(self._spans, first_offset, key=_FIRST_OFFSET) - 1, 0)
        return self._spans[begin : bisect_right(self._spans, last_offset, key=_FIRST_OFFSET)]

    def drop_below(self, offset: int) -> None:
        """Begin at `offset`: whatever was below it is gone from the log."""
        if offset > self.start_offset:
            del self._spans[: self._cut(min(offset, self.end_offset))]
            self.start_offset = offset
            self.end_offset = max(self.end_offset, offset)

    def drop_final(self) -> None:
        """Begin behind the records at the front whose fate is final."""
        count = 0
        while count < len(self._spans) and self._spans[count].state.is_final:
            self.start_offset = self._spans[count].last_offset + 1
            count += 1
        del self._spans[:count]

    def join(self) -> None:
        """Join neighbours that are alike, when enough spans have come since the last time."""
        if len(self._spans) < self._many:
            return
        joined: list[InFlightBatch] = []
        for span in self._spans:
            if joined and joined[-1].is_like(span):
                joined[-1].last_offset = span.last_offset
            else:
                joined.append(span)
        self._spans = joined
        self._many = max(_FEW_SPANS, 2 * len(joined))

    def _cut(self, offset: int) -> int:
        """The index of the span that begins at `offset`, which one is cut for if needed."""
        if offset >= self.end_offset:
            return len(self._spans)
        index = bisect_right(self._spans, offset, key=_FIRST_OFFSET) - 1
        span = self._spans[index]
        if span.first_offset == offset:
            return index
        self._spans.insert(index + 1, replace(span, first_offset=offset))
        span.last_offset = offset - 1
        return index + 1


class AcknowledgeType(enum.IntEnum):
    GAP = 0
    """There is no record at the offset."""
    ACCEPT = 1
    RELEASE = 2
    REJECT = 3
    RENEW = 4
    """The member needs more time (KIP-1222)."""


class RecordRules(NamedTuple):
    """What the group's settings say about its records."""

    lock_duration_ms: int
    max_delivery_count: int
    max_record_locks: int
    may_renew: bool = True

    @property
    def isolated_from_count(self) -> int:
        """Records that were delivered this often come in ever smaller portions, so that a bad one stands alone at the end."""
        return max(2, (self.max_delivery_count + 1) // 2)


class LogBatch(NamedTuple):
    """A batch in the log."""

    base_offset: int
    last_offset: int
    is_deliverable: bool = True
    """Not so for control batches, nor for aborted ones where the group reads committed data."""


class FetchLimits(NamedTuple):
    """How much a member wants at once."""

    max_records: int
    batch_size: int
    is_exact: bool = False
    """Whether `max_records` may cut a batch (record_limit, KIP-1206) or is rounded up to its end."""


class AcquiredRecords(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    first_offset: int
    last_offset: int
    types: Sequence[int]
    """One for all offsets, or one for each."""


class Decision(NamedTuple):
    """A change that waits, and what has to be persisted for it."""

    change: Change
    batches: tuple[StateBatch, ...]
