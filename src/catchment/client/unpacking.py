"""The records of chosen batches in one buffer: that of the fetch where none is compressed, else a new one.

A few bytes may unpack to very many, so there are bounds: on one batch, beyond which it is refused, and on all, beyond which no
further one is begun.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import pyarrow as pa

from catchment.client.arrays import Longs
from catchment.client.decode_kernels import PAYLOAD
from catchment.client.fetched_batches import FetchedBatches, Mask
from catchment.client.record_columns import Payloads
from catchment.protocol.batch import COMPRESSION_MASK, HEADER_SIZE, TIMESTAMP_TYPE_MASK, CorruptBatch
from catchment.protocol.compression import decompress_into

LARGEST_BATCH_BYTES: Final = 1 << 30
"""Of one batch, unpacked. With as much before it, the offsets of Arrow's columns still fit into 32 bits."""
_MOST_ROWS: Final = 8 << 20
"""As many of the longest topic name fit into one column."""
_SMALLEST_RECORD_BYTES: Final = 7
_USUAL_GROWTH: Final = 4


def unpack(batches: FetchedBatches, max_bytes: int) -> tuple[Payloads, int]:
    """The records of these batches, and of how many batches: at least one, if there is one, or CorruptBatch."""
    counts = batches.headers["record_count"]
    _refuse(batches, (counts < 0) | (counts > _MOST_ROWS))
    batches = batches.chosen(slice(max(int(np.searchsorted(np.cumsum(counts), _MOST_ROWS, side="right")), 1)))
    codecs = batches.headers["attributes"] & COMPRESSION_MASK
    if codecs.any():
        buffer, lengths = _decompress(batches, codecs.tolist(), max_bytes)
        starts = np.cumsum(lengths) - lengths
    else:
        lengths = batches.sizes - HEADER_SIZE
        lengths = lengths[: max(int(np.searchsorted(np.cumsum(lengths) - lengths, max_bytes)), 1)]
        buffer = batches.view
        starts = batches.positions[: len(lengths)] + HEADER_SIZE
    return _payloads(batches.chosen(slice(len(lengths))), buffer, starts, lengths), len(lengths)


def _decompress(batches: FetchedBatches, codecs: list[int], max_bytes: int) -> tuple[memoryview, Longs]:
    """The records one behind the other, and the length of each batch's. The buffer grows when one does not fit."""
    target = _allocate(_USUAL_GROWTH * int(batches.sizes.sum()))
    lengths: list[int] = []
    used = 0
    for index, codec in enumerate(codecs):
        if lengths and used >= max_bytes:
            break
        packed = batches.batch(index)[HEADER_SIZE:]
        while (size := decompress_into(codec, packed, target[used : used + LARGEST_BATCH_BYTES])) is None:
            if len(target) - used >= LARGEST_BATCH_BYTES:
                raise CorruptBatch(f"a batch unpacks to more than {LARGEST_BATCH_BYTES} bytes")
            larger = _allocate(min(4 * len(target), used + LARGEST_BATCH_BYTES))
            larger[:used] = target[:used]
            target = larger
        lengths.append(size)
        used += size
    return target[:used].toreadonly(), np.array(lengths, np.int64)


def _allocate(size_bytes: int) -> memoryview:
    # Arrow's pool hands out memory that was used before: the pages of a new array would have to be made first.
    return memoryview(pa.allocate_buffer(size_bytes)).cast("B")


def _payloads(batches: FetchedBatches, buffer: memoryview, starts: Longs, lengths: Longs) -> Payloads:
    headers = batches.headers
    _refuse(batches, headers["record_count"] > lengths // _SMALLEST_RECORD_BYTES)
    size_bytes = int(lengths.sum())
    if size_bytes >= 1 << 31:
        raise CorruptBatch(f"{size_bytes} bytes of records are too many for one Arrow batch")
    table = np.empty(len(lengths), PAYLOAD)
    table["start"], table["end"], table["count"] = starts, starts + lengths, headers["record_count"]
    table["base_offset"], table["base_timestamp_ms"] = headers["base_offset"], headers["base_timestamp_ms"]
    table["log_append_time_ms"] = headers["max_timestamp_ms"]
    table["is_log_append_time"] = (headers["attributes"] & TIMESTAMP_TYPE_MASK) != 0
    return Payloads(np.frombuffer(buffer, np.uint8), table, int(headers["record_count"].sum()), size_bytes)


def _refuse(batches: FetchedBatches, lying: Mask) -> None:
    for index in np.flatnonzero(lying).tolist():
        offset, count = (batches.headers[name][index] for name in ("base_offset", "record_count"))
        raise CorruptBatch(f"the batch at {offset} claims {count} records in {batches.sizes[index]} bytes")
