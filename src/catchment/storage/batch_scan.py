"""Walk the batches of a segment file: headers alone for a lookup, whole checked batches for recovery."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from catchment.ports.disk import File
from catchment.protocol.batch import (
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    BatchHeader,
    CorruptBatch,
    crc_matches,
    read_header,
)

_LOOKUP_CHUNK = 4096
_RECOVERY_CHUNK = 1 << 20


class PlacedBatch(NamedTuple):
    position: int
    header: BatchHeader


class ScannedBatch(NamedTuple):
    position: int
    header: BatchHeader
    data: memoryview


def scan_headers(file: File, position: int, end: int) -> Iterator[PlacedBatch]:
    """The headers from `position`, the start of a batch, to `end`; CorruptBatch where there is none."""
    chunk, chunk_start = b"", position
    while end - position >= HEADER_SIZE:
        if position + HEADER_SIZE > chunk_start + len(chunk):
            chunk, chunk_start = file.read(position, min(_LOOKUP_CHUNK, end - position)), position
        try:
            header = read_header(chunk, position - chunk_start)
        except struct.error as error:
            raise CorruptBatch(f"{file.path} ends at position {position}, not at {end}") from error
        if header.magic != MAGIC or header.length < HEADER_SIZE - LOG_OVERHEAD:
            raise CorruptBatch(f"no batch at position {position} of {file.path}")
        yield PlacedBatch(position, header)
        position += header.size


def scan_batches(file: File, position: int, end: int, next_offset: int) -> Iterator[ScannedBatch]:
    """Sound batches in rising order of offsets from `next_offset` on; ends quietly at the first that is not."""
    chunk, chunk_start = memoryview(b""), position
    while end - position >= HEADER_SIZE:
        start = position - chunk_start
        if start + HEADER_SIZE > chunk.nbytes:
            chunk, chunk_start, start = memoryview(file.read(position, _RECOVERY_CHUNK)), position, 0
            if chunk.nbytes < HEADER_SIZE:
                return
        header = read_header(chunk, start)
        if not _is_plausible(header, next_offset) or position + header.size > end:
            return
        if start + header.size > chunk.nbytes:
            chunk, chunk_start, start = memoryview(file.read(position, max(header.size, _RECOVERY_CHUNK))), position, 0
        batch = chunk[start : start + header.size]
        if batch.nbytes != header.size or not crc_matches(batch, header):
            return
        yield ScannedBatch(position, header, batch)
        next_offset = header.next_offset
        position += header.size


def _is_plausible(header: BatchHeader, next_offset: int) -> bool:
    return (
        header.magic == MAGIC
        and header.length >= HEADER_SIZE - LOG_OVERHEAD
        and header.last_offset_delta >= 0
        and header.base_offset >= next_offset
    )
