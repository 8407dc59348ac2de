"""Producer state on disk, in Kafka's format: version, CRC-32C of what follows, and one entry for each producer.

Kafka keeps only a producer's last batch in a snapshot. A snapshot is named for the offset that it is complete up to, written
at each roll and at a clean stop, and ignored if its CRC does not match.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from catchment.protocol.batch import NO_SEQUENCE
from catchment.protocol.checksum import crc32c
from catchment.storage.producer_entry import ProducerEntry, RememberedBatch

_VERSION = 1
_HEAD = struct.Struct(">hI")
_COUNT = struct.Struct(">i")
_ENTRY = struct.Struct(">qhiqiqiq")


def encode(entries: Iterable[ProducerEntry]) -> bytes:
    packed = [_encode_entry(entry) for entry in entries]
    body = _COUNT.pack(len(packed)) + b"".join(packed)
    return _HEAD.pack(_VERSION, crc32c(body)) + body


def decode(data: bytes) -> list[ProducerEntry]:
    """The entries, or ValueError if the snapshot is torn."""
    if len(data) < _HEAD.size + _COUNT.size:
        raise ValueError(f"a snapshot of {len(data)} bytes")
    version, crc = _HEAD.unpack_from(data)
    if version != _VERSION:
        raise ValueError(f"snapshot version {version}")
    body = memoryview(data)[_HEAD.size :]
    if crc32c(body) != crc:
        raise ValueError("snapshot CRC mismatch")
    entries = body[_COUNT.size :]
    if entries.nbytes != _COUNT.unpack_from(body)[0] * _ENTRY.size:
        raise ValueError("snapshot length mismatch")
    return [_decode_entry(fields) for fields in _ENTRY.iter_unpack(entries)]


def _encode_entry(entry: ProducerEntry) -> bytes:
    last = entry.batches[-1] if entry.batches else RememberedBatch(NO_SEQUENCE, -1, 0, -1)
    first_offset = entry.transaction_first_offset
    return _ENTRY.pack(
        entry.producer_id,
        entry.epoch,
        last.last_sequence,
        last.last_offset,
        last.offset_delta,
        entry.last_timestamp_ms,
        entry.coordinator_epoch,
        -1 if first_offset is None else first_offset,
    )


def _decode_entry(fields: tuple[int, ...]) -> ProducerEntry:
    producer_id, epoch, last_sequence, last_offset, offset_delta, timestamp_ms, coordinator_epoch, first_offset = fields
    entry = ProducerEntry(producer_id)
    entry.epoch = epoch
    entry.last_timestamp_ms = timestamp_ms
    entry.coordinator_epoch = coordinator_epoch
    if last_offset >= 0:
        entry.batches.append(RememberedBatch(last_sequence, last_offset, offset_delta, timestamp_ms))
    if first_offset >= 0:
        entry.transaction_first_offset = first_offset
    return entry
