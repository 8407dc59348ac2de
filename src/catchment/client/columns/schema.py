"""The columns of records, named and typed as in Spark's Kafka source.

The nested fields and the time zone are Spark's too, so that rows of both can be compared byte for byte.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache
from typing import Final

import pyarrow as pa

HEADER_TYPE: Final = pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())])

COLUMN_TYPES: Final[dict[str, pa.DataType]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": pa.list_(pa.field("element", HEADER_TYPE)),
}
ALL_COLUMNS: Final = tuple(COLUMN_TYPES)
DEFAULT_COLUMNS: Final = tuple(name for name in ALL_COLUMNS if name != "headers")
"""The columns of Spark's source without `includeHeaders`."""


def record_schema(columns: Iterable[str] = DEFAULT_COLUMNS) -> pa.Schema:
    """The schema of these columns, in this order. Raises ValueError for none, an unknown or a repeated one."""
    return _schema(tuple(columns))


@lru_cache(maxsize=64)
def _schema(columns: tuple[str, ...]) -> pa.Schema:
    if not columns:
        raise ValueError(f"name at least one column of {', '.join(ALL_COLUMNS)}")
    for name in columns:
        if name not in COLUMN_TYPES:
            nearest = get_close_matches(name, ALL_COLUMNS, n=1, cutoff=0.5)
            hint = f"did you mean {nearest[0]!r}?" if nearest else f"there are {', '.join(ALL_COLUMNS)}"
            raise ValueError(f"records have no column {name!r}: {hint}")
    if len(set(columns)) != len(columns):
        raise ValueError(f"a column is named twice: {', '.join(columns)}")
    return pa.schema([pa.field(name, COLUMN_TYPES[name]) for name in columns])
