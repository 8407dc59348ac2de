"""ShareFetch of one partition: read the log, acquire available records, and return the bytes that hold them.

The bytes are those of the log. They may hold records that were not acquired, between acquired ones: members use the list of
acquired offsets. Control batches are skipped, and so are aborted ones with `read_committed`. A fetch waits until records are
appended, or acquired ones become available again.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Final, NamedTuple

from kio.schema.errors import ErrorCode

from catchment.broker.context import MAX_WAIT_MS
from catchment.broker.network.connection import Connection
from catchment.broker.share.in_flight import AcquiredRecords, FetchLimits, LogBatch
from catchment.broker.share.leader import ShareLeader
from catchment.protocol.batch import HEADER_SIZE, BatchHeader, CorruptBatch, iterate_headers, read_header
from catchment.protocol.errors import ApiError
from catchment.protocol.wire import Piece
from catchment.replication.partition import Partition
from catchment.storage.segments.lookup import FileRange

if TYPE_CHECKING:
    from catchment.broker.context import Services


_READ_MARGIN: Final = 2
"""Record sizes differ between batches: read this many times the size estimated from the first batch."""


class Reader(NamedTuple):
    """A member and the limits of its fetch."""

    member_id: str
    limits: FetchLimits
    max_bytes: int
    reads_committed: bool


class FetchedRecords(NamedTuple):
    records: Piece = b""
    acquired: Sequence[AcquiredRecords] = ()

    @property
    def record_count(self) -> int:
        return sum(each.last_offset - each.first_offset + 1 for each in self.acquired)


def locate(leader: ShareLeader, reader: Reader) -> tuple[int, FileRange] | None:
    """The offset and the file range to read for the member; None if no record is available.

    ApiError if the log cannot be read.
    """
    offset = leader.next_fetch_offset()
    upper_offset = _upper_offset(leader.partition, reader)
    if offset is None or offset >= upper_offset:
        return None
    try:
        found = leader.partition.log.locate(offset, reader.max_bytes, upper_offset)
    except OSError as error:
        raise ApiError(ErrorCode.kafka_storage_error, str(error)) from error
    return None if found is None else (offset, found)


async def take(services: Services, leader: ShareLeader, reader: Reader) -> FetchedRecords:
    """Acquire records for the member, possibly none. ApiError if the log cannot be read."""
    while (located := locate(leader, reader)) is not None:
        offset, found = located
        data = await _read(services, found, reader.limits.max_records)
        if found.file.is_closed:
            # Compaction has replaced the file during the read, and may have dropped its aborted transactions.
            continue
        try:
            batches = list(iterate_headers(data))
        except CorruptBatch as error:
            raise ApiError(ErrorCode.corrupt_message, str(error)) from error
        aborted = _aborted(leader.partition, batches, reader)
        acquired = leader.acquire(reader.member_id, offset, list(_log_batches(batches, aborted)), reader.limits)
        if acquired:
            return FetchedRecords(_cut(data, batches, acquired), acquired)
        next_offset = leader.next_fetch_offset()
        if next_offset is None or next_offset <= offset:
            break
        # These batches have nothing for members. There may be many of them: let other requests run.
        await asyncio.sleep(0)
    return FetchedRecords()


async def _read(services: Services, found: FileRange, max_records: int) -> bytes:
    """Read the range, but not many more bytes than the requested number of records needs."""
    file, position, size = found
    try:
        if not file.would_block(position, HEADER_SIZE):
            header = read_header(file.read(position, HEADER_SIZE))
            likely_size = header.size * max_records * _READ_MARGIN // max(header.record_count, 1)
            size = min(size, max(header.size, likely_size))
        if file.would_block(position, size):
            return await services.disk.read_later(file, position, size)
        return file.read(position, size)
    except OSError as error:
        raise ApiError(ErrorCode.kafka_storage_error, str(error)) from error
    except struct.error as error:
        raise ApiError(ErrorCode.corrupt_message, f"{file.path} ends at position {position}") from error


def _upper_offset(partition: Partition, reader: Reader) -> int:
    return partition.last_stable_offset if reader.reads_committed else partition.high_watermark


def _aborted(partition: Partition, batches: Sequence[tuple[int, BatchHeader]], reader: Reader) -> list[tuple[int, int]]:
    """(first offset, producer id) of the aborted transactions in the batches, in order."""
    if not reader.reads_committed or not batches:
        return []
    found = partition.log.aborted_transactions(batches[0][1].base_offset, batches[-1][1].next_offset)
    return sorted((first_offset, producer_id) for producer_id, first_offset in found)


def _log_batches(batches: Sequence[tuple[int, BatchHeader]], aborted: Sequence[tuple[int, int]]) -> Iterator[LogBatch]:
    """The batches, and whether each is deliverable. An aborted transaction extends from its first offset to its marker."""
    index = 0
    aborting: set[int] = set()
    for _, header in batches:
        while index < len(aborted) and aborted[index][0] <= header.last_offset:
            aborting.add(aborted[index][1])
            index += 1
        if header.is_control:
            aborting.discard(header.producer_id)
        is_aborted = header.is_transactional and header.producer_id in aborting
        yield LogBatch(header.base_offset, header.last_offset, not header.is_control and not is_aborted)


def _cut(data: bytes, batches: Sequence[tuple[int, BatchHeader]], acquired: Sequence[AcquiredRecords]) -> memoryview:
    first_offset, last_offset = acquired[0].first_offset, acquired[-1].last_offset
    begin = next(position for position, header in batches if header.last_offset >= first_offset)
    end = max(position + header.size for position, header in batches if header.base_offset <= last_offset)
    return memoryview(data)[begin:end]


class FetchWaiter:
    """Waits for available records in any of the share partitions, while it is entered.

    The deadline passes early if the client closes its connection.
    """

    def __init__(self, leaders: Sequence[ShareLeader], max_wait_ms: int, connection: Connection | None) -> None:
        self._leaders = leaders
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        is_closing = connection is not None and connection.is_half_closed
        self._deadline_s = self._loop.time() + (0 if is_closing else min(max_wait_ms, MAX_WAIT_MS) / 1000)
        self._is_notified = False
        self._waiter: asyncio.Future[None] | None = None

    def __enter__(self) -> FetchWaiter:
        for leader in self._leaders:
            leader.waiting.add(self._notify)
            leader.partition.readers.add(self._notify)
        if self._connection is not None:
            self._connection.on_disconnect[self] = self._expire
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for leader in self._leaders:
            leader.waiting.remove(self._notify)
            leader.partition.readers.remove(self._notify)
        if self._connection is not None:
            self._connection.on_disconnect.pop(self, None)

    async def wait(self) -> bool:
        """Wait for the next notification; whether it came before the deadline."""
        if not self._is_notified and self._loop.time() < self._deadline_s:
            waiter = self._waiter = self._loop.create_future()
            timer = self._loop.call_at(self._deadline_s, self._end)
            try:
                await waiter
            finally:
                timer.cancel()
        is_notified, self._is_notified = self._is_notified, False
        return is_notified and self._loop.time() < self._deadline_s

    def _notify(self) -> None:
        self._is_notified = True
        self._end()

    def _expire(self) -> None:
        self._deadline_s = 0.0
        self._end()

    def _end(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
