"""Columns given by the caller, as the plain buffers that the compiled loops read.

Strings, views, dictionaries and large or fixed-size binaries are all converted to bytes with 64-bit offsets, which Arrow does
without copying the bytes where possible.
"""

from __future__ import annotations

from typing import Final, TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catchment.client.columns.arrays import Bytes, Longs
from catchment.client.columns.encode_kernels import Rows

_HEADERS: Final = pa.large_list(pa.struct([pa.field("key", pa.large_binary()), pa.field("value", pa.large_binary())]))
Number = TypeVar("Number", bound=np.generic)


def binary_rows(name: str, column: pa.Array) -> Rows:
    """The rows of a binary or string column. Raises ValueError for other types."""
    try:
        column = column.cast(pa.large_binary())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as cause:
        raise ValueError(f"the column {name} is of type {column.type}: cast it to binary or string first") from cause
    _, _, data = column.buffers()
    numbers = np.frombuffer(data, np.uint8) if data is not None and data.size else np.zeros(0, np.uint8)
    return _fixed(numbers), _offsets(column), _nulls(column)


def null_rows(count: int) -> Rows:
    """A missing column: all rows are null."""
    return _fixed(np.zeros(0, np.uint8)), _fixed(np.zeros(count + 1, np.int64)), _fixed(np.ones(count, np.uint8))


def header_rows(column: pa.Array) -> tuple[tuple[Longs, Bytes], Rows, Rows]:
    """The lists of headers with their nulls, and the names and values of all headers."""
    try:
        column = column.cast(_HEADERS)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as cause:
        raise ValueError(
            f"the column headers is of type {column.type}, not a list of structs of key and value"
        ) from cause
    names, values = (binary_rows("headers", column.values.field(name)) for name in ("key", "value"))
    return (_offsets(column), _nulls(column)), names, values


def timestamps_ms(column: pa.Array | None, count: int, default_ms: int) -> Longs:
    """Milliseconds since 1970, from a column of timestamps or integers; the default for nulls and without a column."""
    if column is None:
        return _fixed(np.full(count, default_ms, np.int64))
    if pa.types.is_timestamp(column.type):
        # Kafka's format has no unit finer than a millisecond.
        column = column.cast(pa.timestamp("ms", column.type.tz), safe=False)
    elif not pa.types.is_integer(column.type) and not pa.types.is_null(column.type):
        raise ValueError(
            f"the column timestamp is of type {column.type}: make it a timestamp, or milliseconds as int64"
        )
    return _fixed(column.cast(pa.int64()).fill_null(default_ms).to_numpy(zero_copy_only=False))


def _offsets(column: pa.Array) -> Longs:
    if not len(column):
        return _fixed(np.zeros(1, np.int64))
    return _fixed(np.frombuffer(column.buffers()[1], np.int64)[column.offset : column.offset + len(column) + 1])


def _nulls(column: pa.Array) -> Bytes:
    if not column.null_count:
        return _fixed(np.zeros(len(column), np.uint8))
    return _fixed(column.is_null().cast(pa.uint8()).to_numpy())


def _fixed(array: NDArray[Number]) -> NDArray[Number]:
    """A read-only view: Numba would compile each loop again for every mixture of writable and read-only arrays."""
    view = array.view()
    view.flags.writeable = False
    return view
