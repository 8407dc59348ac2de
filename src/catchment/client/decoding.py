"""What a Fetch returned, as one Arrow record batch: batches are chosen by their headers, records read by compiled loops.

Which batches count is decided as the Java consumer decides it: control batches and those of aborted transactions give no
rows, and the next offset comes from the headers, for compaction may have taken a batch's last records or all of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import pyarrow as pa

from catchment.client.columns import record_schema
from catchment.client.errors import ClientError
from catchment.client.fetched_batches import read_batches
from catchment.client.record_columns import OffsetRange, decode_columns
from catchment.client.unpacking import LARGEST_BATCH_BYTES, unpack
from catchment.protocol.batch import MAGIC, CorruptBatch

DEFAULT_UNPACKED_BYTES: Final = 256 << 20
_LATEST_OFFSET: Final = 2**63 - 1
_MAGIC_POSITION: Final = 16

_DAMAGED: Final = (
    "Fetch it again; if it stays so, its replica is damaged: read from another broker, or start behind it."
)
_OLD: Final = "Copy the topic with a client of Kafka 3, which writes it anew in today's format."


class CorruptRecords(ClientError):
    """Fetched bytes that are not sound record batches."""


class OldMessageFormat(ClientError):
    """Fetched messages of Kafka before 0.11, which have no version-2 batches."""


class Decoded(NamedTuple):
    """The rows, and the offset from which to fetch on: never derived from the rows, for offsets have gaps."""

    batch: pa.RecordBatch
    next_offset: int


def decode(
    data: bytes | memoryview,
    columns: Sequence[str],
    *,
    topic: str,
    partition: int,
    start_offset: int,
    end_offset: int | None = None,
    aborted: Sequence[tuple[int, int]] = (),
    validate_crc: bool = True,
    max_unpacked_bytes: int = DEFAULT_UNPACKED_BYTES,
) -> Decoded:
    """The records of one fetched partition with offsets in [start_offset, end_offset), or CorruptRecords.

    `aborted` holds (producer id, first offset) as the Fetch response lists them for read_committed. A partial batch at the
    end is passed over: `next_offset` stays at `start_offset` if there was no whole one. Once `max_unpacked_bytes` are
    unpacked no further batch is, so that small compressed data cannot fill the memory: `next_offset` says where to go on.
    """
    schema = record_schema(columns)
    offsets = OffsetRange(start_offset, _LATEST_OFFSET if end_offset is None else end_offset)
    view = memoryview(data).cast("B").toreadonly()
    place = f"{topic}-{partition}"
    if len(view) > _MAGIC_POSITION and view[_MAGIC_POSITION] < MAGIC:
        raise OldMessageFormat(f"{place} holds messages of format {view[_MAGIC_POSITION]} at {start_offset}", _OLD)
    try:
        batches = read_batches(view).up_to(offsets.end)
        if validate_crc:
            batches.check_crcs()
        chosen = batches.chosen(batches.gives_rows(offsets.start, offsets.end, aborted))
        payloads, used = unpack(chosen, min(max_unpacked_bytes, LARGEST_BATCH_BYTES))
        following = chosen.headers["base_offset"][used:] if used < len(chosen.positions) else batches.next_offsets[-1:]
        next_offset = max([start_offset, *following[:1].tolist()])
        batch = decode_columns(payloads, offsets, schema, topic, partition)
    except CorruptBatch as cause:
        raise CorruptRecords(f"{place} has damaged records from offset {start_offset} on: {cause}", _DAMAGED) from cause
    return Decoded(batch, min(next_offset, offsets.end))
