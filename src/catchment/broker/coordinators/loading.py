"""Replaying a partition of an internal topic into a coordinator, without holding up the event loop for long."""

import asyncio
from collections.abc import Callable

from catchment.protocol.batch import BatchHeader, iterate_headers
from catchment.protocol.records import Record, read_records
from catchment.storage.control_record import read_marker
from catchment.storage.log import Log

_SLICE_BYTES = 64 * 1024
"""Between two slices, other requests are served."""
_MOST_UNCOMPRESSED_BYTES = 256 << 20

Replay = Callable[[bytes, bytes | None], None]


async def replay_log(log: Log, end_offset: int, replay: Replay) -> None:
    """Hand every committed record below `end_offset` to `replay`, in order.

    What belongs to a transaction counts from its commit marker on; that of an aborted or open one not at all.
    """
    offset = log.log_start_offset
    undecided: dict[int, list[Record]] = {}
    while offset < end_offset:
        data = memoryview(log.read(offset, _SLICE_BYTES, end_offset).data)
        next_offset = offset
        for position, header in iterate_headers(data):
            _replay_batch(data[position : position + header.size], header, offset, undecided, replay)
            next_offset = header.next_offset
        if next_offset == offset:
            return
        offset = max(next_offset, log.log_start_offset)
        await asyncio.sleep(0)


def _replay_batch(
    batch: memoryview, header: BatchHeader, offset: int, undecided: dict[int, list[Record]], replay: Replay
) -> None:
    if header.is_control:
        marker = read_marker(batch)
        records = undecided.pop(header.producer_id, [])
        if marker is None or not marker.is_commit:
            return
    else:
        records = [
            record
            for record in read_records(batch, _MOST_UNCOMPRESSED_BYTES)
            if header.base_offset + record.offset_delta >= offset
        ]
        if header.is_transactional:
            undecided.setdefault(header.producer_id, []).extend(records)
            return
    for record in records:
        if record.key is not None:
            replay(record.key, record.value)
