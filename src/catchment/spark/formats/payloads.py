"""The bytes to decode: where each record's lie in one buffer, so that framing is cut off and rows are chosen without copies."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from catchment.client.columns.arrays import Bytes, Longs

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Payloads:
    """One row for each record. What is not present is null, and gives a null."""

    data: Bytes
    starts: Longs
    ends: Longs
    present: Flags

    @classmethod
    def of(cls, column: Any) -> Payloads:
        """Those of an Arrow column of type binary, whose buffers they share."""
        rows = len(column)
        _, offsets_buffer, data_buffer = column.buffers()
        if rows == 0 or offsets_buffer is None:
            edges = np.zeros(rows + 1, np.int64)
        else:
            edges = np.frombuffer(offsets_buffer, np.int32, rows + 1, column.offset * 4).astype(np.int64)
        data = np.frombuffer(data_buffer, np.uint8) if data_buffer is not None else np.zeros(0, np.uint8)
        present = np.ones(rows, np.bool_)
        if column.null_count:
            present = column.is_valid().to_numpy(zero_copy_only=False)
        return cls(data, edges[:-1], edges[1:], present)

    def __len__(self) -> int:
        return len(self.starts)

    def row(self, index: int) -> bytes:
        """The bytes of one record."""
        return self.data[self.starts[index] : self.ends[index]].tobytes()

    def rows(self) -> list[bytes | None]:
        """The bytes of every record, None for those that are not present."""
        whole = self.data.tobytes()
        edges = zip(self.starts.tolist(), self.ends.tolist(), self.present.tolist(), strict=True)
        return [whole[start:end] if present else None for start, end, present in edges]

    def only(self, indices: Longs) -> Payloads:
        """Some of the rows, in the order of the indices."""
        return Payloads(self.data, self.starts[indices], self.ends[indices], self.present[indices])

    def without(self, rejected: Flags) -> Payloads:
        """The same rows, of which the rejected ones are no longer present."""
        return Payloads(self.data, self.starts, self.ends, self.present & ~rejected)

    def binary(self) -> Any:
        """An Arrow column of their bytes, which shares the buffer where they are contiguous."""
        if not len(self) or not np.array_equal(self.starts[1:], self.ends[:-1]):
            return pa.array(self.rows(), pa.binary())
        edges = np.append(self.starts, self.ends[-1]).astype(np.int32)
        return pa.Array.from_buffers(
            pa.binary(), len(self), [bitmap(self.present), pa.py_buffer(edges), pa.py_buffer(self.data)]
        )


def bitmap(flags: Flags) -> Any:
    """Arrow's form of which rows are not null: none at all where there is nothing to say."""
    return None if flags.all() else pa.py_buffer(np.packbits(flags, bitorder="little"))
