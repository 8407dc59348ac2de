"""Keys for which PostgreSQL has no room in an index: a third of a page, some 2,700 bytes, after it has compressed them.

How far a key can be compressed only the server knows, so it is asked: keys that may be too long are put into an index that nobody
sees. Where some of them do not fit, halves are tried until it is known which.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy
import pyarrow
from pyarrow import compute, types

CanIndex = Callable[[pyarrow.Table], bool]
"""Whether the server has room for every one of some keys."""
_SURELY_SHORT_BYTES: Final = 1_800
"""The rest is for what an index adds to each of its columns, of which there are 32 at most, and for those of a fixed size."""


def too_long(keys: pyarrow.Table, can_index: CanIndex) -> numpy.ndarray:
    """Of each key, whether it is too long. Where all are short, which is the rule, nobody is asked."""
    found = numpy.zeros(keys.num_rows, dtype=bool)
    found[_too_long(keys, numpy.flatnonzero(_bytes(keys) > _SURELY_SHORT_BYTES), can_index)] = True
    return found


def longest(keys: pyarrow.Table) -> str:
    """The column that makes the keys long."""
    names: list[str] = keys.column_names
    return max(names, key=lambda name: int(_bytes(keys.select([name])).max(initial=0)))


def _too_long(keys: pyarrow.Table, positions: numpy.ndarray, can_index: CanIndex) -> list[int]:
    if not len(positions) or can_index(keys.take(positions)):
        return []
    if len(positions) == 1:
        return [int(positions[0])]
    middle = len(positions) // 2
    return [*_too_long(keys, positions[:middle], can_index), *_too_long(keys, positions[middle:], can_index)]


def _bytes(keys: pyarrow.Table) -> numpy.ndarray:
    """How long each key is, in texts and bytes."""
    total = numpy.zeros(keys.num_rows, dtype=numpy.int64)
    for column in keys.columns:
        if types.is_string(column.type) or types.is_binary(column.type):
            total += compute.fill_null(compute.binary_length(column), 0).to_numpy()
    return total
