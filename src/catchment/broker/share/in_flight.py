"""The records in flight of a share partition, as batches of offsets with one state, and the values that describe them.

The batches cover the range from the start offset (all records below it are final) to the end offset (no record from there on
was ever in flight), without gap or overlap. Members usually acquire and acknowledge whole batches, so one entry stands for many
records. It is split where an acknowledgement covers a part of it, and adjacent entries with the same state are merged again.
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
_MIN_MERGE_THRESHOLD: Final = 64


class RecordState(enum.IntEnum):
    """The delivery state of a record, with the number that Kafka persists."""

    AVAILABLE = 0
    ACQUIRED = 1
    ACKNOWLEDGED = 2
    ARCHIVED = 4

    @property
    def is_final(self) -> bool:
        return self >= RecordState.ACKNOWLEDGED


class Change:
    """A pending acknowledgement of some batches, until it is persisted. It is compared by identity."""

    __slots__ = ()


@dataclass(slots=True)
class InFlightBatch:
    first_offset: int
    last_offset: int
    state: RecordState
    delivery_count: int = 0
    member_id: str = ""
    """The member that has acquired the records."""
    deadline_ms: int = 0
    """When the acquisition lock times out."""
    change: Change | None = None
    """The pending change: until it is persisted, no other change is allowed."""
    next_state: RecordState = RecordState.AVAILABLE

    @property
    def size(self) -> int:
        return self.last_offset - self.first_offset + 1

    @property
    def is_acquirable(self) -> bool:
        return self.state is RecordState.AVAILABLE and self.change is None

    def settle(self, state: RecordState) -> None:
        """Set the state and remove the acquisition lock."""
        self.state = state
        self.member_id = ""
        self.deadline_ms = 0
        self.change = None

    def can_merge_with(self, other: InFlightBatch) -> bool:
        return (
            self.state is other.state
            and self.delivery_count == other.delivery_count
            and self.member_id == other.member_id
            and self.deadline_ms == other.deadline_ms
            and self.change is None
            and other.change is None
        )


class InFlightBatches:
    __slots__ = ("_batches", "_merge_threshold", "end_offset", "start_offset")

    def __init__(self, start_offset: int) -> None:
        self.start_offset = start_offset
        self.end_offset = start_offset
        self._batches: list[InFlightBatch] = []
        self._merge_threshold = _MIN_MERGE_THRESHOLD

    def __iter__(self) -> Iterator[InFlightBatch]:
        return iter(self._batches)

    def __len__(self) -> int:
        return len(self._batches)

    def append(self, last_offset: int, state: RecordState, delivery_count: int = 0) -> None:
        """Extend the range to `last_offset`."""
        self._batches.append(InFlightBatch(self.end_offset, last_offset, state, delivery_count))
        self.end_offset = last_offset + 1

    def within(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """The batches of exactly these offsets, as far as they are in flight. The outer ones are split to fit."""
        first_offset = max(first_offset, self.start_offset)
        last_offset = min(last_offset, self.end_offset - 1)
        if first_offset > last_offset:
            return []
        begin = self._split(first_offset)
        return self._batches[begin : self._split(last_offset + 1)]

    def touching(self, first_offset: int, last_offset: int) -> list[InFlightBatch]:
        """The batches that hold any of these offsets, not split."""
        begin = max(bisect_right(self._batches, first_offset, key=_FIRST_OFFSET) - 1, 0)
        return self._batches[begin : bisect_right(self._batches, last_offset, key=_FIRST_OFFSET)]

    def drop_below(self, offset: int) -> None:
        """Move the start to `offset`: the records below it are deleted from the log."""
        if offset > self.start_offset:
            del self._batches[: self._split(min(offset, self.end_offset))]
            self.start_offset = offset
            self.end_offset = max(self.end_offset, offset)

    def drop_final(self) -> None:
        """Move the start past the leading records in a final state."""
        count = 0
        while count < len(self._batches) and self._batches[count].state.is_final:
            self.start_offset = self._batches[count].last_offset + 1
            count += 1
        del self._batches[:count]

    def merge(self) -> None:
        """Merge adjacent batches with the same state, if enough were added since the last time."""
        if len(self._batches) < self._merge_threshold:
            return
        merged: list[InFlightBatch] = []
        for batch in self._batches:
            if merged and merged[-1].can_merge_with(batch):
                merged[-1].last_offset = batch.last_offset
            else:
                merged.append(batch)
        self._batches = merged
        self._merge_threshold = max(_MIN_MERGE_THRESHOLD, 2 * len(merged))

    def _split(self, offset: int) -> int:
        """The index of the batch that begins at `offset`, after splitting one if necessary."""
        if offset >= self.end_offset:
            return len(self._batches)
        index = bisect_right(self._batches, offset, key=_FIRST_OFFSET) - 1
        batch = self._batches[index]
        if batch.first_offset == offset:
            return index
        self._batches.insert(index + 1, replace(batch, first_offset=offset))
        batch.last_offset = offset - 1
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
    """The settings of the group for its records."""

    lock_duration_ms: int
    max_delivery_count: int
    max_record_locks: int
    may_renew: bool = True

    @property
    def isolated_from_count(self) -> int:
        """Records with this delivery count are delivered in ever smaller batches, so that a bad one is isolated in the end."""
        return max(2, (self.max_delivery_count + 1) // 2)


class LogBatch(NamedTuple):
    """A batch in the log."""

    base_offset: int
    last_offset: int
    is_deliverable: bool = True
    """False for control batches, and for aborted ones with `read_committed`."""


class FetchLimits(NamedTuple):
    """The limits of one fetch of a member."""

    max_records: int
    batch_size: int
    is_exact: bool = False
    """Whether `max_records` may split a batch (record_limit, KIP-1206) or is rounded up to its end."""


class AcquiredRecords(NamedTuple):
    first_offset: int
    last_offset: int
    delivery_count: int


class Acknowledgement(NamedTuple):
    first_offset: int
    last_offset: int
    types: Sequence[int]
    """One type for all offsets, or one for each."""


class PendingAcknowledgement(NamedTuple):
    """A pending change, and the batches to persist for it."""

    change: Change
    batches: tuple[StateBatch, ...]
