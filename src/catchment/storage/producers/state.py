"""The producers of a partition: which batch each may append next, and which transactions are still open.

`check` decides before a batch is written and changes nothing. `update` and `complete` follow once the batch is in the log, and
recovery and followers call nothing else. So a write that fails leaves no trace here.

A transaction is open until its marker is written. It holds back the last stable offset until that marker is below the high
watermark: transactions whose marker is above it are called unreplicated, as in Kafka.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.protocol.batch import NO_PRODUCER_EPOCH, NO_SEQUENCE, BatchHeader
from catchment.protocol.errors import ApiError
from catchment.storage.control_record import TransactionMarker
from catchment.storage.segments.index import AbortedTransaction

MOST_PRODUCERS = 100_000
_EVICTED_SHARE = 10
_BATCHES_REMEMBERED = 5
NO_COORDINATOR_EPOCH = -1
_SEQUENCE_MASK = 0x7FFFFFFF


class BatchMetadata(NamedTuple):
    last_sequence: int
    last_offset: int
    offset_delta: int
    timestamp_ms: int

    @property
    def first_sequence(self) -> int:
        """Sequences wrap at 2³¹ − 1."""
        return (self.last_sequence - self.offset_delta) & _SEQUENCE_MASK

    @property
    def base_offset(self) -> int:
        return self.last_offset - self.offset_delta


class ProducerEntry:
    """What a partition remembers of one producer: its epoch, its last five batches and its open transaction."""

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "producer_id",
        "transaction_first_offset",
    )

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = NO_PRODUCER_EPOCH
        self.batches: deque[BatchMetadata] = deque(maxlen=_BATCHES_REMEMBERED)
        self.last_timestamp_ms = -1
        self.coordinator_epoch = NO_COORDINATOR_EPOCH
        self.transaction_first_offset: int | None = None

    @property
    def last_sequence(self) -> int:
        return self.batches[-1].last_sequence if self.batches else NO_SEQUENCE

    @property
    def last_offset(self) -> int:
        return self.batches[-1].last_offset if self.batches else -1

    def duplicate_of(self, header: BatchHeader) -> BatchMetadata | None:
        """The original of a batch that the producer sends again, if it is one of the last five."""
        if header.producer_epoch != self.epoch:
            return None
        last_sequence = header.last_sequence
        for batch in self.batches:
            if batch.last_sequence == last_sequence and batch.first_sequence == header.base_sequence:
                return batch
        return None

    def raise_epoch(self, epoch: int) -> None:
        """Start a new epoch, in which no sequence number is known."""
        if epoch != self.epoch:
            self.epoch = epoch
            self.batches.clear()


def follows(last_sequence: int, next_sequence: int) -> bool:
    return next_sequence == (last_sequence + 1) & _SEQUENCE_MASK


class CompletedTransaction(NamedTuple):
    """A transaction whose marker is in the log, above the high watermark as far as is known."""

    first_offset: int
    last_offset: int


class ProducerState:
    __slots__ = ("_entries", "_most_producers", "_open", "_unreplicated")

    def __init__(self, most_producers: int = MOST_PRODUCERS) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self._open: dict[int, int] = {}
        """Where each open transaction begins, in the order of these offsets."""
        self._unreplicated: list[CompletedTransaction] = []
        self._most_producers = most_producers

    def __len__(self) -> int:
        return len(self._entries)

    def __iter__(self) -> Iterator[ProducerEntry]:
        return iter(self._entries.values())

    def get(self, producer_id: int) -> ProducerEntry | None:
        return self._entries.get(producer_id)

    def replace(self, entries: Iterable[ProducerEntry]) -> None:
        """Start from a snapshot."""
        self._entries = {entry.producer_id: entry for entry in entries}
        self._unreplicated.clear()
        begun = [
            (entry.transaction_first_offset, entry.producer_id)
            for entry in self
            if entry.transaction_first_offset is not None
        ]
        self._open = {producer_id: first_offset for first_offset, producer_id in sorted(begun)}

    def check(self, header: BatchHeader, *, is_from_client: bool) -> BatchMetadata | None:
        """Check that this data batch may be appended, or raise ApiError; the original if it is a duplicate."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            # Nothing is known, perhaps because retention deleted it: any sequence number is accepted.
            return None
        if header.producer_epoch < entry.epoch:
            raise _stale_epoch(header.producer_id, header.producer_epoch, entry.epoch)
        is_next = header.producer_epoch == entry.epoch and follows(entry.last_sequence, header.base_sequence)
        if is_from_client and not is_next:
            duplicate = entry.duplicate_of(header)
            if duplicate is not None:
                return duplicate
            _check_sequence(entry, header)
        if entry.transaction_first_offset is not None and not header.is_transactional:
            raise ApiError(
                ErrorCode.invalid_txn_state,
                f"producer {header.producer_id} has a transaction open and may not write outside it",
            )
        return None

    def check_marker(self, header: BatchHeader, marker: TransactionMarker) -> None:
        entry = self._entries.get(header.producer_id)
        if entry is None:
            return
        if header.producer_epoch < entry.epoch:
            raise _stale_epoch(header.producer_id, header.producer_epoch, entry.epoch)
        if marker.coordinator_epoch < entry.coordinator_epoch:
            raise ApiError(
                ErrorCode.transaction_coordinator_fenced,
                f"coordinator epoch {marker.coordinator_epoch} is below {entry.coordinator_epoch}",
            )

    def check_bumped_epoch(self, producer_id: int, epoch: int) -> None:
        """With transactions v2 a marker's epoch is above that of all records before it (KIP-890), so a late one is rejected.

        A marker that is written twice, because its coordinator got no response to the first, does no harm.
        """
        entry = self._entries.get(producer_id)
        if entry is not None and (epoch < entry.epoch or (epoch == entry.epoch and producer_id in self._open)):
            raise _stale_epoch(producer_id, epoch, entry.epoch)

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a batch of this epoch would continue a transaction that has begun here."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.transaction_first_offset is not None and entry.epoch == epoch

    def update(self, header: BatchHeader, base_offset: int, timestamp_ms: int, seen_ms: int) -> None:
        """A data batch of a producer is in the log at `base_offset`."""
        entry = self._entry(header.producer_id)
        if entry.epoch != header.producer_epoch:
            entry.raise_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        entry.batches.append(BatchMetadata(header.last_sequence, base_offset + delta, delta, timestamp_ms))
        entry.last_timestamp_ms = seen_ms
        if header.is_transactional and entry.transaction_first_offset is None:
            entry.transaction_first_offset = base_offset
            self._open[header.producer_id] = base_offset

    def aborted_by(self, header: BatchHeader, marker: TransactionMarker, offset: int) -> AbortedTransaction | None:
        """The entry for the index of aborted transactions if a marker at `offset` aborts one that has records here."""
        first_offset = self._open.get(header.producer_id)
        if marker.is_commit or first_offset is None:
            return None
        others = (first for producer_id, first in self._open.items() if producer_id != header.producer_id)
        # The last stable offset once this transaction is completed and replicated.
        last_stable_offset = next(others, offset + 1)
        return AbortedTransaction(header.producer_id, first_offset, offset, last_stable_offset)

    def complete(self, header: BatchHeader, marker: TransactionMarker, offset: int) -> None:
        """A marker is in the log at `offset`."""
        entry = self._entry(header.producer_id)
        entry.raise_epoch(header.producer_epoch)
        entry.transaction_first_offset = None
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp_ms = max(entry.last_timestamp_ms, header.max_timestamp_ms)
        first_offset = self._open.pop(header.producer_id, None)
        if first_offset is not None:
            self._unreplicated.append(CompletedTransaction(first_offset, offset))

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first transaction begins that is open or unreplicated."""
        first_open = next(iter(self._open.values()), None)
        if not self._unreplicated:
            return first_open
        first_unreplicated = min([transaction.first_offset for transaction in self._unreplicated])
        return first_unreplicated if first_open is None else min(first_unreplicated, first_open)

    def forget_replicated(self, high_watermark: int) -> None:
        """Forget the completed transactions whose marker is below the high watermark."""
        if self._unreplicated:
            self._unreplicated = [each for each in self._unreplicated if each.last_offset >= high_watermark]

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have been idle for so long, unless a transaction is open; the number of them."""
        idle = [
            entry.producer_id
            for entry in self
            if entry.transaction_first_offset is None and now_ms - entry.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in idle:
            del self._entries[producer_id]
        return len(idle)

    def clear(self) -> None:
        self.replace(())

    def _entry(self, producer_id: int) -> ProducerEntry:
        entry = self._entries.get(producer_id)
        if entry is None:
            if len(self._entries) >= self._most_producers:
                self._evict()
            entry = self._entries[producer_id] = ProducerEntry(producer_id)
        return entry

    def _evict(self) -> None:
        """Make room by forgetting those idle for longest, many at once so that the search is rare."""
        idle = [entry for entry in self if entry.transaction_first_offset is None]
        idle.sort(key=lambda entry: entry.last_timestamp_ms)
        for entry in idle[: max(1, self._most_producers // _EVICTED_SHARE)]:
            del self._entries[entry.producer_id]


def _check_sequence(entry: ProducerEntry, header: BatchHeader) -> None:
    """A batch that does not continue the last one may only be the first of a new epoch."""
    if header.producer_epoch == entry.epoch:
        raise ApiError(
            ErrorCode.out_of_order_sequence_number,
            f"producer {header.producer_id} sent sequence {header.base_sequence} after {entry.last_sequence}",
        )
    if header.base_sequence != 0 and entry.epoch != NO_PRODUCER_EPOCH:
        raise ApiError(
            ErrorCode.out_of_order_sequence_number,
            f"producer {header.producer_id} begins epoch {header.producer_epoch} with sequence "
            f"{header.base_sequence}, not 0",
        )


def _stale_epoch(producer_id: int, epoch: int, current: int) -> ApiError:
    return ApiError(
        ErrorCode.invalid_producer_epoch, f"producer {producer_id} has epoch {epoch}, but {current} is in use"
    )
