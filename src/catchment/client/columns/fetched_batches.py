"""The headers of fetched batches as a table, their checks, and the selection of those with rows.

A fetch may hold thousands of batches with a record each. So only finding the batches and checking their CRCs is done batch by
batch in Python, and records of aborted transactions are looked for only if there are any.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from catchment.client.columns.arrays import Longs
from catchment.protocol.batch import (
    CONTROL_MASK,
    HEADER_SIZE,
    LOG_OVERHEAD,
    MAGIC,
    TRANSACTIONAL_MASK,
    CorruptBatch,
    partial_size,
)
from catchment.protocol.checksum import crc32c
from catchment.protocol.records import read_records

_WIRE_HEADER: Final = np.dtype(
    [
        ("base_offset", ">i8"),
        ("length", ">i4"),
        ("leader_epoch", ">i4"),
        ("magic", "i1"),
        ("crc", ">u4"),
        ("attributes", ">i2"),
        ("last_offset_delta", ">i4"),
        ("base_timestamp_ms", ">i8"),
        ("max_timestamp_ms", ">i8"),
        ("producer_id", ">i8"),
        ("producer_epoch", ">i2"),
        ("base_sequence", ">i4"),
        ("record_count", ">i4"),
    ]
)
_HEADER: Final = np.dtype([(name, np.int64) for name in _WIRE_HEADER.names or ()])
_FIRST_COVERED: Final = 21
"""The CRC covers everything from the attributes on."""
_CONTROL_LIMIT_BYTES: Final = 1 << 20
_ABORT: Final = b"\x00\x00"

Mask = NDArray[np.bool_]


class FetchedBatches(NamedTuple):
    """The whole batches of a fetch: their positions, and a column for each field of their headers."""

    view: memoryview
    positions: Longs
    headers: NDArray[Any]

    @property
    def sizes(self) -> Longs:
        sizes: Longs = self.headers["length"] + LOG_OVERHEAD
        return sizes

    @property
    def next_offsets(self) -> Longs:
        """The offset after each batch."""
        offsets: Longs = self.headers["base_offset"] + self.headers["last_offset_delta"] + 1
        return offsets

    def chosen(self, which: Mask | slice) -> FetchedBatches:
        """Some of them."""
        return FetchedBatches(self.view, self.positions[which], self.headers[which])

    def up_to(self, end_offset: int) -> FetchedBatches:
        """The batches up to the first that reaches `end_offset`."""
        reaching = np.flatnonzero(self.next_offsets >= end_offset)
        return self.chosen(slice(int(reaching[0]) + 1)) if len(reaching) else self

    def batch(self, index: int) -> memoryview:
        """The bytes of one."""
        return self.view[self.positions[index] : self.positions[index] + self.headers["length"][index] + LOG_OVERHEAD]

    def check_crcs(self) -> None:
        """Raise CorruptBatch if a CRC does not match."""
        view = self.view
        starts, ends = (self.positions + _FIRST_COVERED).tolist(), (self.positions + self.sizes).tolist()
        for index, (start, end, crc) in enumerate(zip(starts, ends, self.headers["crc"].tolist(), strict=True)):
            if crc32c(view[start:end]) != crc:
                raise CorruptBatch(f"the batch at {self.headers['base_offset'][index]} does not match its CRC")

    def gives_rows(self, start_offset: int, end_offset: int, aborted: Sequence[tuple[int, int]]) -> Mask:
        """Which of them have committed records in the range.

        `aborted` are the (producer id, first offset) of aborted transactions.
        """
        is_control = (self.headers["attributes"] & CONTROL_MASK) != 0
        is_empty = (self.headers["record_count"] == 0) & (self.sizes == HEADER_SIZE)
        is_outside = (self.next_offsets <= start_offset) | (self.headers["base_offset"] >= end_offset)
        chosen: Mask = ~(is_control | is_empty | is_outside)
        if aborted:
            chosen &= ~self._aborted(sorted((first_offset, producer_id) for producer_id, first_offset in aborted))
        return chosen

    def _aborted(self, waiting: Sequence[tuple[int, int]]) -> Mask:
        """Which belong to these transactions, sorted by first offset. An abort marker ends that of its producer."""
        result = np.zeros(len(self.positions), np.bool_)
        producers: set[int] = set()
        begun = 0
        is_transactional = (self.headers["attributes"] & TRANSACTIONAL_MASK) != 0
        for index in np.flatnonzero(is_transactional).tolist():
            while begun < len(waiting) and waiting[begun][0] < self.next_offsets[index]:
                producers.add(waiting[begun][1])
                begun += 1
            producer_id = int(self.headers["producer_id"][index])
            if producer_id not in producers:
                continue
            if not self.headers["attributes"][index] & CONTROL_MASK:
                result[index] = True
            elif _is_abort_marker(self.batch(index)):
                producers.discard(producer_id)
        return result


def read_batches(view: memoryview) -> FetchedBatches:
    """The whole batches in `view`. Raises CorruptBatch if their headers are inconsistent."""
    positions = []
    position = 0
    while len(view) - position >= HEADER_SIZE:
        size = partial_size(view, position)
        if size < HEADER_SIZE:
            raise CorruptBatch(f"a batch claims {size} bytes")
        if size > len(view) - position:
            break
        positions.append(position)
        position += size
    places = np.array(positions, np.int64)
    rows = np.frombuffer(view, np.uint8)[places[:, np.newaxis] + np.arange(HEADER_SIZE)]
    batches = FetchedBatches(view, places, rows.view(_WIRE_HEADER).reshape(len(places)).astype(_HEADER))
    _check(batches)
    return batches


def _check(batches: FetchedBatches) -> None:
    headers = batches.headers
    due = np.concatenate([np.zeros(1, np.int64), batches.next_offsets])[:-1]
    wrong_magic = headers["magic"] != MAGIC
    # An end offset that overflows is below the base offset.
    out_of_order = (headers["base_offset"] < due) | (batches.next_offsets <= headers["base_offset"])
    for index in np.flatnonzero(wrong_magic | out_of_order).tolist():
        offset = headers["base_offset"][index]
        if wrong_magic[index]:
            raise CorruptBatch(f"the batch at {offset} has magic {headers['magic'][index]}")
        raise CorruptBatch(
            f"a batch from {offset} to {batches.next_offsets[index]} where offset {due[index]} or more was expected"
        )


def _is_abort_marker(batch: memoryview) -> bool:
    # The key of a control record holds its version and its type, 16 bits each.
    for record in read_records(batch, _CONTROL_LIMIT_BYTES):
        return record.key is not None and record.key[2:4] == _ABORT
    return False
