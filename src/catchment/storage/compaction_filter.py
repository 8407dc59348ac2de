"""What is left of a batch: nothing, the batch as it is, or fewer records under the same header.

Offsets never change, and a batch keeps the offsets at which it began and ended, since its sequence numbers follow from them.
A batch that must stay for its header alone stays without records.

Tombstones and the markers of empty transactions stay until their delete horizon (KIP-534): the first cleaning that meets them
sets it `delete.retention.ms` ahead, as the batch's base timestamp, so that a reader who is not further behind sees them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from typing_extensions import Buffer

from catchment.protocol.batch import NO_TIMESTAMP, BatchHeader
from catchment.protocol.records import Record, encode_batch, read_records
from catchment.storage.compaction import CompactionJob, LastOfProducer
from catchment.storage.compaction_keys import LastOffsets
from catchment.storage.compaction_transactions import TransactionOutcomes
from catchment.storage.transaction_index import AbortedTransaction
from catchment.storage.validation import MOST_UNCOMPRESSED_BYTES


class BatchFilter:
    def __init__(self, job: CompactionJob, last_offsets: LastOffsets) -> None:
        self._last_offsets = last_offsets
        self._transactions = TransactionOutcomes(job.aborted)
        self._producers: Mapping[int, LastOfProducer] = job.producers
        self._now_ms = job.now_ms
        self._new_horizon_ms = job.now_ms + job.delete_retention_ms
        self.kept_aborts: list[AbortedTransaction] = []
        """What the index of aborted transactions must hold for the markers seen so far."""

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
        """A marker is kept whole or not at all: without its record it would say nothing of the producer's epoch."""
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
        if offset >= self._last_offsets.end_offset:
            return True
        if record.key is None or self._last_offsets.is_superseded(record.key, offset):
            return False
        return record.value is not None or not header.has_delete_horizon or self._now_ms < header.base_timestamp_ms

    def _holds_producer(self, header: BatchHeader) -> bool:
        """Whether this batch is what recovery would learn a producer's state from."""
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
    """The same batch with fewer records, or with a delete horizon, or both. Every record keeps its time."""
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
