"""Batches as a leader sent them: checked whole before a follower writes any of them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from kio.schema.errors import ErrorCode

from catchment.protocol.batch import MAGIC, BatchHeader, CorruptBatch, crc_matches, iterate_headers
from catchment.protocol.errors import ApiError
from catchment.storage.control_record import TransactionMarker, read_marker


class FollowerBatch(NamedTuple):
    header: BatchHeader
    marker: TransactionMarker | None


def split_batches(data: memoryview, next_offset: int) -> tuple[memoryview, list[FollowerBatch]]:
    """The whole batches in `data`, which must be sound and go on from `next_offset`; a cut one at the end is left off."""
    batches: list[FollowerBatch] = []
    end = 0
    try:
        for position, header in iterate_headers(data):
            batch = data[position : position + header.size]
            if header.magic != MAGIC or not crc_matches(batch, header):
                raise CorruptBatch(f"the batch at offset {header.base_offset} is damaged")
            if header.base_offset < next_offset or header.last_offset_delta < 0:
                raise ApiError(
                    ErrorCode.unknown_server_error,
                    f"the leader sent offset {header.base_offset}, but the log goes on at {next_offset}",
                )
            batches.append(FollowerBatch(header, read_marker(batch) if header.is_control else None))
            next_offset = header.next_offset
            end = position + header.size
    except CorruptBatch as error:
        raise ApiError(ErrorCode.corrupt_message, str(error)) from error
    return data[:end], batches


def runs(data: memoryview, batches: list[FollowerBatch]) -> Iterator[tuple[memoryview, list[FollowerBatch]]]:
    """What may be written at once: batches without a marker together, and each marker by itself."""
    position = start = 0
    run: list[FollowerBatch] = []
    for batch in batches:
        if run and (batch.marker is not None or run[-1].marker is not None):
            yield data[start:position], run
            start, run = position, []
        run.append(batch)
        position += batch.header.size
    if run:
        yield data[start:position], run
