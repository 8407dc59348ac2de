"""Control batches: the markers that end transactions."""

from __future__ import annotations

import struct
from typing import NamedTuple

from catchment.protocol.batch import CorruptBatch
from catchment.protocol.records import Record, encode_batch, read_records

_KEY = struct.Struct(">hh")
_VALUE = struct.Struct(">hi")
_ABORT = 0
_COMMIT = 1
_LARGEST_CONTROL_BATCH_BYTES = 1 << 16


class TransactionMarker(NamedTuple):
    is_commit: bool
    coordinator_epoch: int


def read_marker(batch: memoryview | bytes) -> TransactionMarker | None:
    """The marker in a control batch. None for other control records, which only controllers use, and for empty batches."""
    try:
        record = next(iter(read_records(batch, _LARGEST_CONTROL_BATCH_BYTES)), None)
        if record is None or record.key is None or record.value is None:
            return None
        _, kind = _KEY.unpack_from(record.key)
        _, coordinator_epoch = _VALUE.unpack_from(record.value)
    except (CorruptBatch, struct.error):
        return None
    return TransactionMarker(kind == _COMMIT, coordinator_epoch) if kind in (_ABORT, _COMMIT) else None


def encode_marker(
    marker: TransactionMarker, *, producer_id: int, producer_epoch: int, timestamp_ms: int, base_offset: int = 0
) -> bytes:
    """A control batch that ends the producer's transaction."""
    key = _KEY.pack(0, _COMMIT if marker.is_commit else _ABORT)
    return encode_batch(
        [Record(key, _VALUE.pack(0, marker.coordinator_epoch))],
        base_offset=base_offset,
        base_timestamp_ms=timestamp_ms,
        producer_id=producer_id,
        producer_epoch=producer_epoch,
        is_transactional=True,
        is_control=True,
    )
