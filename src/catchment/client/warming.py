"""Compile every loop of the Arrow client ahead of its first use, which would otherwise take some seconds.

Numba caches the machine code, so the next process loads it in milliseconds.
"""

from __future__ import annotations

from typing import Final

import pyarrow as pa

from catchment.client.columns.decoding import decode
from catchment.client.columns.encoding import encode
from catchment.client.columns.schema import ALL_COLUMNS, COLUMN_TYPES
from catchment.client.produce.partitioning import partition_of

_SENT_COLUMNS: Final = ("key", "value", "headers", "timestamp")


def warm() -> None:
    """Encode and decode one record with every compiled loop."""
    record = {"key": b"k", "value": b"v", "headers": [{"key": "h", "value": b"x"}], "timestamp": 0}
    schema = pa.schema([(name, COLUMN_TYPES[name]) for name in _SENT_COLUMNS])
    rows = pa.RecordBatch.from_pylist([record], schema=schema)
    partition_of(rows.column("key"), 1)
    for batch in encode(rows, timestamp_ms=0):
        decode(batch.data, ALL_COLUMNS, topic="warm", partition=0, start_offset=0)
