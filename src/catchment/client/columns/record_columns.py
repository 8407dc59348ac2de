"""Arrow columns of unpacked records: the buffers that the compiled loops fill, and the arrays over them.

Buffers come from Arrow's memory pool, which reuses freed ones: fresh pages for every fetch would cost more than the copying.
They are as large as the records could need; pages that are never written take no memory.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catchment.client.columns import decode_kernels as kernels
from catchment.client.columns.arrays import Bytes, Longs
from catchment.client.columns.schema import COLUMN_TYPES, HEADER_TYPE
from catchment.protocol.batch import CorruptBatch

_BITS: Final = {
    "offset": kernels.OFFSET,
    "timestamp": kernels.TIMESTAMP,
    "timestampType": kernels.TIMESTAMP_TYPE,
    "key": kernels.KEY,
    "value": kernels.VALUE,
    "headers": kernels.HEADERS,
}
_LARGEST_KEPT_BYTES: Final = 8 << 20
_FEWEST_KEPT_ROWS: Final = 4096


class OffsetRange(NamedTuple):
    """The wanted offsets, from `start` up to but not including `end`."""

    start: int
    end: int


class Payloads(NamedTuple):
    """The unpacked records of some batches: one buffer, a table of the position of each batch, and bounds on their content."""

    data: Bytes
    table: NDArray[Any]
    row_count: int
    size_bytes: int


class _Buffer:
    """Memory of Arrow's pool, and the same memory as a NumPy array."""

    def __init__(self, count: int, dtype: Any) -> None:
        self._size_bytes = np.dtype(dtype).itemsize
        self.memory = pa.allocate_buffer(count * self._size_bytes)
        self.array: NDArray[Any] = np.frombuffer(self.memory, dtype)

    def first(self, count: int) -> pa.Buffer:
        """The filled part. A small part is copied, so that it does not keep the whole buffer alive."""
        used = self.memory.slice(0, count * self._size_bytes)
        return pa.py_buffer(used.to_pybytes()) if 2 * used.size < self.memory.size else used


class _Binary:
    """The three buffers of a nullable binary column, or empty ones if the column is not wanted."""

    def __init__(self, row_count: int, size_bytes: int) -> None:
        self._bytes = _Buffer(size_bytes, np.uint8)
        self._offsets = _Buffer(row_count + 1, np.int32)
        self._valid = _Bitmap(row_count)
        self._offsets.array[0] = 0
        self.arrays = (self._bytes.array, self._offsets.array, self._valid.array)

    def column(self, arrow_type: pa.DataType, row_count: int, size_bytes: int) -> pa.Array:
        buffers = [self._valid.buffer(row_count), self._offsets.first(row_count + 1), self._bytes.first(size_bytes)]
        return pa.Array.from_buffers(arrow_type, row_count, buffers)


class _Bitmap:
    """A bit for each row, set unless the row is null."""

    def __init__(self, row_count: int) -> None:
        self._buffer = _Buffer((row_count + 7) // 8, np.uint8)
        self.array = self._buffer.array
        self.array.fill(0xFF)

    def buffer(self, row_count: int) -> pa.Buffer | None:
        """The validity bitmap, or None if no row is null."""
        used = (row_count + 7) // 8
        return None if (self.array[:used] == 0xFF).all() else self._buffer.first(used)


def decode_columns(
    payloads: Payloads, offsets: OffsetRange, schema: pa.Schema, topic: str, partition: int
) -> pa.RecordBatch:
    """The records in range as a batch of this schema. Raises CorruptBatch."""
    names = schema.names
    numbers = {
        name: _Buffer(payloads.row_count if name in names else 0, dtype)
        for name, dtype in (("offset", np.int64), ("timestamp", np.int64), ("timestampType", np.int32))
    }
    fields = {
        name: _Binary(payloads.row_count, payloads.size_bytes) if name in names else _Binary(0, 0)
        for name in ("key", "value")
    }
    topic_partitions = np.empty((2, payloads.row_count if "headers" in names else 0), np.int64)
    totals = np.zeros(4, np.int64)
    error = kernels.decode_records(
        payloads.data,
        payloads.table,
        (offsets.start, offsets.end),
        sum(_BITS.get(name, 0) for name in names),
        (numbers["offset"].array, numbers["timestamp"].array, numbers["timestampType"].array),
        fields["key"].arrays,
        fields["value"].arrays,
        (topic_partitions[0], topic_partitions[1]),
        totals,
    )
    _check(error, payloads, int(totals[3]))
    row_count, key_bytes, value_bytes, _ = map(int, totals)
    columns = {}
    for name in names:
        arrow_type = COLUMN_TYPES[name]
        if name in numbers:
            columns[name] = pa.Array.from_buffers(arrow_type, row_count, [None, numbers[name].first(row_count)])
        elif name in fields:
            columns[name] = fields[name].column(arrow_type, row_count, key_bytes if name == "key" else value_bytes)
        elif name == "headers":
            columns[name] = _headers(payloads, topic_partitions[0, :row_count], topic_partitions[1, :row_count])
        elif name == "topic":
            columns[name] = _topic(topic, row_count)
        else:
            columns[name] = pa.array(np.full(row_count, partition, np.int32))
    return pa.RecordBatch.from_arrays(list(columns.values()), schema=schema)


def _check(error: int, payloads: Payloads, index: int) -> None:
    if error:
        raise CorruptBatch(f"the batch at {payloads.table[index]['base_offset']} {kernels.ERRORS[error]}")


def _headers(payloads: Payloads, starts: Longs, ends: Longs) -> pa.Array:
    """The headers of each row as a list; null for rows without headers, as in Spark."""
    row_count = len(starts)
    list_offsets, list_valid = _Buffer(row_count + 1, np.int32), _Bitmap(row_count)
    list_offsets.array[0] = 0
    totals = np.zeros(4, np.int64)
    error = kernels.count_headers(payloads.data, starts, ends, list_offsets.array, list_valid.array, totals)
    _check_headers(error, payloads, starts, int(totals[3]))
    header_count = int(list_offsets.array[row_count])
    names, values = _Binary(header_count, payloads.size_bytes), _Binary(header_count, payloads.size_bytes)
    error = kernels.decode_headers(payloads.data, starts, ends, list_offsets.array, names.arrays, values.arrays, totals)
    _check_headers(error, payloads, starts, int(totals[3]))
    name_bytes, value_bytes, is_beyond_ascii, _ = map(int, totals)
    name_column = names.column(pa.string(), header_count, name_bytes)
    if is_beyond_ascii:
        name_column = _well_formed(name_column)
    value_column = values.column(pa.binary(), header_count, value_bytes)
    pairs = pa.StructArray.from_arrays([name_column, value_column], fields=list(HEADER_TYPE))
    buffers = [list_valid.buffer(row_count), list_offsets.first(row_count + 1)]
    return pa.Array.from_buffers(COLUMN_TYPES["headers"], row_count, buffers, children=[pairs])


def _check_headers(error: int, payloads: Payloads, starts: Longs, row: int) -> None:
    if error:
        _check(error, payloads, int(np.searchsorted(payloads.table["start"], starts[row], side="right")) - 1)


def _well_formed(names: pa.Array) -> pa.Array:
    """The same names with invalid UTF-8 replaced, as Java replaces it: readers of Arrow data expect valid UTF-8."""
    try:
        names.validate(full=True)
    except pa.ArrowInvalid:
        return pa.array([name.decode("utf-8", "replace") for name in names.view(pa.binary()).to_pylist()], pa.string())
    return names


def _topic(topic: str, row_count: int) -> pa.Array:
    name = topic.encode()
    kept_rows = max(1 << (row_count - 1).bit_length(), _FEWEST_KEPT_ROWS)
    if kept_rows * (len(name) + 4) <= _LARGEST_KEPT_BYTES:
        offsets, names = _kept(name, kept_rows)
    else:
        offsets, names = _repeated(name, row_count)
    buffers = [None, offsets.slice(0, 4 * (row_count + 1)), names.slice(0, len(name) * row_count)]
    return pa.Array.from_buffers(pa.string(), row_count, buffers)


def _repeated(name: bytes, row_count: int) -> tuple[pa.Buffer, pa.Buffer]:
    return pa.py_buffer(np.arange(row_count + 1, dtype=np.int32) * np.int32(len(name))), pa.py_buffer(name * row_count)


_kept = lru_cache(maxsize=8)(_repeated)
