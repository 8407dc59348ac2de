"""Replays a partition of an internal topic into a coordinator shard, in slices that do not block the event loop."""

import asyncio

from catchment.coordination.coordinator_shard import NO_PRODUCER, CoordinatorShard
from catchment.protocol.batch import BatchHeader, iterate_headers
from catchment.protocol.records import read_records
from catchment.storage.control_record import read_marker
from catchment.storage.log import Log

_SLICE_BYTES = 64 * 1024
"""Other requests run between two slices."""
_MOST_UNCOMPRESSED_BYTES = 256 << 20


async def replay_log(log: Log, end_offset: int, shard: CoordinatorShard) -> None:
    """Replay everything below `end_offset` into the shard, in order."""
    offset = log.log_start_offset
    while offset < end_offset:
        data = memoryview(log.read(offset, _SLICE_BYTES, end_offset))
        next_offset = offset
        for position, header in iterate_headers(data):
            _replay_batch(data[position : position + header.size], header, offset, shard)
            next_offset = header.next_offset
        if next_offset == offset:
            return
        offset = max(next_offset, log.log_start_offset)
        await asyncio.sleep(0)


def _replay_batch(batch: memoryview, header: BatchHeader, offset: int, shard: CoordinatorShard) -> None:
    if header.is_control:
        marker = read_marker(batch)
        if marker is not None:
            shard.end_transaction(header.producer_id, marker.is_commit)
        return
    producer_id = header.producer_id if header.is_transactional else NO_PRODUCER
    for record in read_records(batch, _MOST_UNCOMPRESSED_BYTES):
        if record.key is not None and header.base_offset + record.offset_delta >= offset:
            shard.replay(record.key, record.value, producer_id)
