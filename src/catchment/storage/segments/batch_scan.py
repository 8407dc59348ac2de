"""Scan the batches of a segment file: headers alone for a lookup, whole checked batches for recovery."""

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


class LocatedBatch(NamedTuple):
    position: int
    header: BatchHeader


class ScannedBatch(NamedTuple):
    position: int
    header: BatchHeader
    data: memoryview


def scan_headers(file: File, position: int, end: int) -> Iterator[LocatedBatch]:
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
        yield LocatedBatch(position, header)
        position += header.size
    if position != end:
        raise CorruptBatch(f"{file.path} ends inside the batch before position {position}")


class BatchScan:
    """The valid batches of a file in rising order of offsets; the scan ends at the first that is not valid.

    The CRC does not cover a batch's offset. Compaction leaves gaps between batches, but a gap may also be a damaged offset: it is
    accepted only if what follows, the next batch or the next segment, does not begin below the end of the batch. With
    `are_gaps_expected` false a gap before the very last batch of the log is not accepted either.
    """

    def __init__(
        self, file: File, size: int, base_offset: int, end_offset: int | None, *, are_gaps_expected: bool
    ) -> None:
        """`end_offset` is where the next segment begins, None in the last one."""
        self._file = file
        self._size = size
        self._next_offset = base_offset
        self._end_offset = end_offset
        self._are_gaps_expected = are_gaps_expected
        self._chunk = memoryview(b"")
        self._chunk_start = 0

    def __iter__(self) -> Iterator[ScannedBatch]:
        position = 0
        while (header := self._header(position)) is not None:
            batch = self._bytes(position, header.size)
            if batch.nbytes != header.size or not crc_matches(batch, header) or not self._is_in_order(position, header):
                return
            yield ScannedBatch(position, header, batch)
            self._next_offset = header.next_offset
            position += header.size

    def _header(self, position: int) -> BatchHeader | None:
        """The header at `position`, if there is a plausible one."""
        if self._size - position < HEADER_SIZE:
            return None
        data = self._bytes(position, HEADER_SIZE)
        if data.nbytes < HEADER_SIZE:
            return None
        header = read_header(data)
        is_possible = (
            header.magic == MAGIC
            and header.length >= HEADER_SIZE - LOG_OVERHEAD
            and header.last_offset_delta >= 0
            and position + header.size <= self._size
        )
        return header if is_possible else None

    def _is_in_order(self, position: int, header: BatchHeader) -> bool:
        if header.base_offset == self._next_offset:
            return True
        if header.base_offset < self._next_offset:
            return False
        following = self._header(position + header.size)
        if following is not None:
            return following.base_offset >= header.next_offset
        if self._end_offset is not None:
            return header.next_offset <= self._end_offset
        return self._are_gaps_expected

    def _bytes(self, position: int, size: int) -> memoryview:
        start = position - self._chunk_start
        if start < 0 or start + size > self._chunk.nbytes:
            self._chunk = memoryview(self._file.read(position, max(size, _RECOVERY_CHUNK)))
            self._chunk_start, start = position, 0
        return self._chunk[start : start + size]
