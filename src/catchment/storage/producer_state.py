"""The producers of a partition: who may append what next, and which transactions are still open.

`check` decides before a batch is written and changes nothing; `update` and `complete` follow once it is in the log, and are
all that recovery and followers call. So a write that fails leaves no trace here.

A transaction is undecided until its marker is written, and holds up readers of committed data until that marker is below the
high watermark: decided transactions are kept aside until then.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.protocol.batch import NO_PRODUCER_EPOCH, BatchHeader
from catchment.protocol.errors import ApiError
from catchment.storage.control_record import TransactionMarker
from catchment.storage.producer_entry import ProducerEntry, RememberedBatch, follows

MOST_PRODUCERS = 100_000
_EVICTED_SHARE = 10


class DecidedTransaction(NamedTuple):
    producer_id: int
    first_offset: int
    last_offset: int
    is_aborted: bool


class ProducerState:
    __slots__ = ("_decided", "_entries", "_most_producers", "_open")

    def __init__(self, most_producers: int = MOST_PRODUCERS) -> None:
        self._entries: dict[int, ProducerEntry] = {}
        self._open: dict[int, int] = {}
        """Where each open transaction begins, in the order of these offsets."""
        self._decided: list[DecidedTransaction] = []
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
        self._decided.clear()
        begun = [
            (entry.transaction_first_offset, entry.producer_id)
            for entry in self
            if entry.transaction_first_offset is not None
        ]
        self._open = {producer_id: first_offset for first_offset, producer_id in sorted(begun)}

    def check(self, header: BatchHeader, *, is_from_client: bool) -> RememberedBatch | None:
        """Whether this data batch may be appended: the original if it is a duplicate, ApiError if it may not."""
        entry = self._entries.get(header.producer_id)
        if entry is None:
            # Nothing is known, perhaps because retention took it: any sequence is as good as another.
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
        """With transactions v2 a marker's epoch is above that of all records before it (KIP-890), so a late one is refused.

        A marker that is written once more, since its coordinator did not hear of the first, does no harm.
        """
        entry = self._entries.get(producer_id)
        if entry is not None and (epoch < entry.epoch or (epoch == entry.epoch and producer_id in self._open)):
            raise _stale_epoch(producer_id, epoch, entry.epoch)

    def has_open_transaction(self, producer_id: int, epoch: int) -> bool:
        """Whether a batch of this epoch would go on with a transaction that has begun here."""
        entry = self._entries.get(producer_id)
        return entry is not None and entry.transaction_first_offset is not None and entry.epoch == epoch

    def update(self, header: BatchHeader, base_offset: int, timestamp_ms: int, seen_ms: int) -> None:
        """A data batch of a producer is in the log at `base_offset`."""
        entry = self._entry(header.producer_id)
        if entry.epoch != header.producer_epoch:
            entry.raise_epoch(header.producer_epoch)
        delta = header.last_offset_delta
        entry.batches.append(RememberedBatch(header.last_sequence, base_offset + delta, delta, timestamp_ms))
        entry.last_timestamp_ms = seen_ms
        if header.is_transactional and entry.transaction_first_offset is None:
            entry.transaction_first_offset = base_offset
            self._open[header.producer_id] = base_offset

    def decision(self, header: BatchHeader, marker: TransactionMarker, offset: int) -> DecidedTransaction | None:
        """The transaction that a marker at `offset` ends, if the producer has one open here."""
        first_offset = self._open.get(header.producer_id)
        if first_offset is None:
            return None
        return DecidedTransaction(header.producer_id, first_offset, offset, not marker.is_commit)

    def complete(self, header: BatchHeader, marker: TransactionMarker, offset: int) -> None:
        """A marker is in the log at `offset`."""
        decided = self.decision(header, marker, offset)
        entry = self._entry(header.producer_id)
        entry.raise_epoch(header.producer_epoch)
        entry.transaction_first_offset = None
        entry.coordinator_epoch = marker.coordinator_epoch
        entry.last_timestamp_ms = max(entry.last_timestamp_ms, header.max_timestamp_ms)
        if decided is not None:
            del self._open[header.producer_id]
            self._decided.append(decided)

    @property
    def first_unstable_offset(self) -> int | None:
        """Where the first transaction begins that is open, or decided above the high watermark last told."""
        first_open = next(iter(self._open.values()), None)
        if not self._decided:
            return first_open
        first_decided = min([decided.first_offset for decided in self._decided])
        return first_decided if first_open is None else min(first_decided, first_open)

    def stable_bound(self, decided: DecidedTransaction) -> int:
        """The last stable offset once this transaction is decided and replicated."""
        others = (first for producer_id, first in self._open.items() if producer_id != decided.producer_id)
        return next(others, decided.last_offset + 1)

    def forget_decided(self, high_watermark: int) -> None:
        """Markers below the high watermark hold up nobody."""
        if self._decided:
            self._decided = [decided for decided in self._decided if decided.last_offset >= high_watermark]

    def expire(self, now_ms: int, expiration_ms: int) -> int:
        """Forget producers that have been silent for so long, unless a transaction is open; how many went."""
        silent = [
            entry.producer_id
            for entry in self
            if entry.transaction_first_offset is None and now_ms - entry.last_timestamp_ms >= expiration_ms
        ]
        for producer_id in silent:
            del self._entries[producer_id]
        return len(silent)

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
        """Make room by forgetting those silent for longest, many at once so that the search is rare."""
        idle = [entry for entry in self if entry.transaction_first_offset is None]
        idle.sort(key=lambda entry: entry.last_timestamp_ms)
        for entry in idle[: max(1, self._most_producers // _EVICTED_SHARE)]:
            del self._entries[entry.producer_id]


def _check_sequence(entry: ProducerEntry, header: BatchHeader) -> None:
    """A batch that does not go on from the last one may only be the first of a new epoch."""
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
