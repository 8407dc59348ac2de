"""A record batch as bytes: read its header, patch what the CRC does not cover, without unpacking its records.

The 61 bytes of a version-2 header, with their positions:

    0 baseOffset i64 · 8 batchLength i32 · 12 partitionLeaderEpoch i32 · 16 magic i8 · 17 crc u32 · 21 attributes i16
    23 lastOffsetDelta i32 · 27 baseTimestamp i64 · 35 maxTimestamp i64 · 43 producerId i64 · 51 producerEpoch i16
    53 baseSequence i32 · 57 recordCount i32

The CRC-32C covers everything from the attributes on, so base offset and leader epoch may be patched.
"""

import struct
from collections.abc import Iterator
from typing import NamedTuple

from typing_extensions import Buffer

from catchment.protocol.checksum import crc32c

HEADER_SIZE = 61
LOG_OVERHEAD = 12
"""Base offset and length, which `batchLength` does not count."""
MAGIC = 2
NO_PRODUCER_ID = -1
NO_PRODUCER_EPOCH = -1
NO_SEQUENCE = -1
NO_TIMESTAMP = -1

HEADER = struct.Struct(">qiibIhiqqqhii")
_PREFIX = struct.Struct(">qi")
_HEAD = struct.Struct(">qii")
_CRC = struct.Struct(">I")
_ATTRIBUTES_POSITION = 21
_CRC_POSITION = 17
_MAX_TIMESTAMP_POSITION = 35

COMPRESSION_MASK = 0x07
TIMESTAMP_TYPE_MASK = 0x08
TRANSACTIONAL_MASK = 0x10
CONTROL_MASK = 0x20
DELETE_HORIZON_MASK = 0x40


class BatchHeader(NamedTuple):
    base_offset: int
    length: int
    leader_epoch: int
    magic: int
    crc: int
    attributes: int
    last_offset_delta: int
    base_timestamp_ms: int
    max_timestamp_ms: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_count: int

    @property
    def size(self) -> int:
        """The size of the whole batch with its header."""
        return self.length + LOG_OVERHEAD

    @property
    def last_offset(self) -> int:
        return self.base_offset + self.last_offset_delta

    @property
    def next_offset(self) -> int:
        return self.base_offset + self.last_offset_delta + 1

    @property
    def last_sequence(self) -> int:
        """The last record's sequence number. Sequence numbers wrap around after 2³¹ − 1."""
        if self.base_sequence == NO_SEQUENCE:
            return NO_SEQUENCE
        return (self.base_sequence + self.last_offset_delta) & 0x7FFFFFFF

    @property
    def compression(self) -> int:
        return self.attributes & COMPRESSION_MASK

    @property
    def is_log_append_time(self) -> bool:
        return bool(self.attributes & TIMESTAMP_TYPE_MASK)

    @property
    def is_transactional(self) -> bool:
        return bool(self.attributes & TRANSACTIONAL_MASK)

    @property
    def is_control(self) -> bool:
        return bool(self.attributes & CONTROL_MASK)

    @property
    def has_delete_horizon(self) -> bool:
        return bool(self.attributes & DELETE_HORIZON_MASK)

    @property
    def has_producer(self) -> bool:
        return self.producer_id >= 0


class CorruptBatch(Exception):
    """Bytes that are not a complete, valid version-2 batch."""


def read_header(data: Buffer, position: int = 0) -> BatchHeader:
    """The header at `position`. Raises struct.error if fewer than 61 bytes are left."""
    return BatchHeader._make(HEADER.unpack_from(data, position))


def crc_matches(batch: memoryview, header: BatchHeader) -> bool:
    """Whether the CRC of `batch`, which holds exactly one batch, matches its header."""
    return crc32c(batch[_ATTRIBUTES_POSITION : header.size]) == header.crc


def check(batch: memoryview) -> BatchHeader:
    """The header of a buffer that must hold exactly one valid version-2 batch. Raises CorruptBatch."""
    if batch.nbytes < HEADER_SIZE:
        raise CorruptBatch(f"{batch.nbytes} bytes are too few for a batch")
    header = read_header(batch)
    if header.magic != MAGIC:
        raise CorruptBatch(f"magic {header.magic}")
    if header.size != batch.nbytes:
        raise CorruptBatch(f"length {header.length} in a batch of {batch.nbytes} bytes")
    if not crc_matches(batch, header):
        raise CorruptBatch("CRC mismatch")
    return header


def patched_head(base_offset: int, length: int, leader_epoch: int) -> bytes:
    """The first 16 bytes of a batch, which the CRC does not cover. The rest is written to disk as it was received."""
    return _HEAD.pack(base_offset, length, leader_epoch)


HEAD_SIZE = _HEAD.size


def with_log_append_time(batch: memoryview, now_ms: int) -> bytearray:
    """A copy of the batch with the log append time and a new CRC."""
    stamped = bytearray(batch)
    attributes = struct.unpack_from(">h", stamped, _ATTRIBUTES_POSITION)[0] | TIMESTAMP_TYPE_MASK
    struct.pack_into(">h", stamped, _ATTRIBUTES_POSITION, attributes)
    struct.pack_into(">q", stamped, _MAX_TIMESTAMP_POSITION, now_ms)
    seal(stamped)
    return stamped


def seal(batch: bytearray | memoryview) -> None:
    """Write the CRC over a finished batch."""
    _CRC.pack_into(batch, _CRC_POSITION, crc32c(memoryview(batch)[_ATTRIBUTES_POSITION:]))


def iterate_headers(data: Buffer) -> Iterator[tuple[int, BatchHeader]]:
    """(position, header) of each whole batch in `data`; a partial one at the end is ignored."""
    view = memoryview(data)
    position = 0
    end = view.nbytes
    while end - position >= HEADER_SIZE:
        header = read_header(view, position)
        if header.length < HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptBatch(f"length {header.length} at position {position}")
        if position + header.size > end:
            return
        yield position, header
        position += header.size


def partial_size(data: Buffer, position: int = 0) -> int:
    """The size of the batch at `position` according to its first 12 bytes."""
    length: int = _PREFIX.unpack_from(data, position)[1]
    return length + LOG_OVERHEAD
