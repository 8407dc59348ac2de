"""What compaction leaves of a batch: nothing, the batch as it is, or fewer records under the same header.

Offsets never change, and a batch keeps the offsets at which it began and ended, since its sequence numbers follow from them.
A batch that must stay for its header alone stays without records.

Tombstones and the markers of empty transactions stay until their delete horizon (KIP-534): the first cleaning that meets them
sets it `delete.retention.ms` ahead, as the batch's base timestamp, so that a reader that is not further behind sees them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final

from typing_extensions import Buffer

from catchment.protocol.batch import NO_TIMESTAMP, BatchHeader
from catchment.protocol.records import Record, encode_batch, read_records
from catchment.storage.compaction.plan import CompactionJob, LastOfProducer
from catchment.storage.segments.index import AbortedTransaction
from catchment.storage.validation import MOST_UNCOMPRESSED_BYTES


class BatchFilter:
    def __init__(self, job: CompactionJob, offset_map: OffsetMap) -> None:
        self._offset_map = offset_map
        self._transactions = TransactionOutcomes(job.aborted)
        self._producers: Mapping[int, LastOfProducer] = job.producers
        self._now_ms = job.now_ms
        self._new_horizon_ms = job.now_ms + job.delete_retention_ms
        self.kept_aborts: list[AbortedTransaction] = []
        """The entries of the transaction index for the markers seen so far."""

    def remaining(self, batch: memoryview, header: BatchHeader, *, must_stay: bool) -> Buffer | None:
        """What to write in place of a batch; None for nothing. `must_stay` keeps its header in any case."""
        must_stay = must_stay or self._holds_producer(header)
        if header.is_control:
            return self._remaining_control(batch, header, must_stay=must_stay)
        if self._transactions.is_aborted(header):
            return _without_records(header) if must_stay else None
        records = list(read_records(batch, MOST_UNCOMPRESSED_BYTES))
        kept = [record for record in records if self._is_kept(record, header)]
        if not kept:
            return _without_records(header) if must_stay else None
        needs_horizon = not header.has_delete_horizon and any(record.value is None for record in kept)
        if len(kept) == len(records) and not needs_horizon:
            return batch
        return _with_records(header, kept, self._new_horizon_ms if needs_horizon else None)

    def _remaining_control(self, batch: memoryview, header: BatchHeader, *, must_stay: bool) -> Buffer | None:
        """A marker is kept whole or not at all: without its record the producer's epoch would be lost."""
        if header.record_count == 0:
            return batch if must_stay else None
        is_empty, abort = self._transactions.ends_empty(header)
        if abort is not None:
            self.kept_aborts.append(abort)
        if not is_empty or must_stay:
            return batch
        if header.has_delete_horizon:
            return batch if self._now_ms < header.base_timestamp_ms else None
        return _with_records(header, list(read_records(batch, MOST_UNCOMPRESSED_BYTES)), self._new_horizon_ms)

    def _is_kept(self, record: Record, header: BatchHeader) -> bool:
        offset = header.base_offset + record.offset_delta
        if offset >= self._offset_map.end_offset:
            return True
        if record.key is None or self._offset_map.is_superseded(record.key, offset):
            return False
        return record.value is not None or not header.has_delete_horizon or self._now_ms < header.base_timestamp_ms

    def _holds_producer(self, header: BatchHeader) -> bool:
        """Whether recovery would take a producer's state from this batch."""
        last = self._producers.get(header.producer_id) if header.has_producer else None
        if last is None:
            return False
        if last.last_offset is None:
            return header.is_control and header.producer_epoch == last.epoch
        return header.last_offset == last.last_offset


def _without_records(header: BatchHeader) -> bytes:
    return encode_batch(
        (),
        base_offset=header.base_offset,
        base_timestamp_ms=NO_TIMESTAMP,
        max_timestamp_ms=header.max_timestamp_ms,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_log_append_time=header.is_log_append_time,
        is_transactional=header.is_transactional,
    )


def _with_records(header: BatchHeader, records: Sequence[Record], new_horizon_ms: int | None) -> bytes:
    """The same batch with fewer records, or with a delete horizon, or both. Every record keeps its timestamp."""
    max_timestamp_ms = header.max_timestamp_ms
    if not header.is_log_append_time:
        max_timestamp_ms = header.base_timestamp_ms + max(record.timestamp_delta_ms for record in records)
    base_timestamp_ms = header.base_timestamp_ms
    if new_horizon_ms is not None:
        shift_ms = base_timestamp_ms - new_horizon_ms
        records = [record._replace(timestamp_delta_ms=record.timestamp_delta_ms + shift_ms) for record in records]
        base_timestamp_ms = new_horizon_ms
    return encode_batch(
        records,
        base_offset=header.base_offset,
        base_timestamp_ms=base_timestamp_ms,
        max_timestamp_ms=max_timestamp_ms,
        last_offset_delta=header.last_offset_delta,
        leader_epoch=header.leader_epoch,
        compression=header.compression,
        producer_id=header.producer_id,
        producer_epoch=header.producer_epoch,
        base_sequence=header.base_sequence,
        is_log_append_time=header.is_log_append_time,
        is_transactional=header.is_transactional,
        is_control=header.is_control,
        has_delete_horizon=header.has_delete_horizon or new_horizon_ms is not None,
    )


_DIGEST_BYTES: Final = 16
_BYTES_A_KEY: Final = 192
"""Memory of an entry: the key's bytes object, the offset, and their share of a dictionary that has just grown."""
_FEWEST_KEYS: Final = 1024


def keys_in(buffer_bytes: int) -> int:
    """How many keys a buffer of `log.cleaner.dedupe.buffer.size` bytes holds."""
    return max(_FEWEST_KEYS, buffer_bytes // _BYTES_A_KEY)


class OffsetMap:
    """The last offset of each key in the dirty section of a log, in bounded memory.

    Keys shorter than a digest stand for themselves, longer ones for their 128-bit digest, as in Kafka: two keys with the same
    digest would have to be made on purpose.
    """

    def __init__(self, most_keys: int) -> None:
        self._most_keys = most_keys
        self._offsets: dict[bytes, int] = {}
        self.end_offset = 0
        """All records below this offset are known."""

    @property
    def is_full(self) -> bool:
        """Whether the next batch is left to the next cleaning. The first one never is, or there would be no progress."""
        return len(self._offsets) >= self._most_keys

    def put(self, key: bytes, offset: int) -> None:
        self._offsets[_short(key)] = offset

    def is_superseded(self, key: bytes, offset: int) -> bool:
        """Whether a later record has the same key."""
        return self._offsets.get(_short(key), -1) > offset


def _short(key: bytes) -> bytes:
    return key if len(key) < _DIGEST_BYTES else blake2b(key, digest_size=_DIGEST_BYTES).digest()


class TransactionOutcomes:
    """Which transactions were aborted, and which have no batch left. Batches and markers must come in the order of the log."""

    def __init__(self, aborted: Iterable[AbortedTransaction]) -> None:
        """`aborted` is in the order of the log as well."""
        self._aborted: dict[int, list[AbortedTransaction]] = {}
        for transaction in aborted:
            self._aborted.setdefault(transaction.producer_id, []).append(transaction)
        self._with_batches: set[int] = set()

    def is_aborted(self, header: BatchHeader) -> bool:
        """Whether this data batch belongs to an aborted transaction. The transaction counts as one with a batch from now on."""
        if not header.is_transactional:
            return False
        self._with_batches.add(header.producer_id)
        return self._abort_around(header) is not None

    def ends_empty(self, marker: BatchHeader) -> tuple[bool, AbortedTransaction | None]:
        """Whether no batch is left of the transaction that a marker ends; if one is, the entry that the transaction index keeps."""
        if marker.producer_id not in self._with_batches:
            return True, None
        self._with_batches.discard(marker.producer_id)
        return False, self._abort_around(marker)

    def _abort_around(self, header: BatchHeader) -> AbortedTransaction | None:
        transactions = self._aborted.get(header.producer_id, [])
        index = bisect_right(transactions, header.base_offset, key=lambda transaction: transaction.first_offset) - 1
        if index >= 0 and header.base_offset <= transactions[index].last_offset:
            return transactions[index]
        return None
