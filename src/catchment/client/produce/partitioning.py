"""The partition of each row: given by the row, by its key's hash as in the Java client, or in turn.

Rows without a key go to one partition for a while, as with Java's sticky partitioner: few large batches are better than many
small ones. Rows of one partition keep their order.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from catchment.client.columns.arrays import Longs
from catchment.client.columns.encode_kernels import choose_partitions
from catchment.client.columns.input_columns import binary_rows

NO_PARTITION: Final = -1
_SHORTEST_RUN: Final = 1000
"""The fewest rows without a key in a row that go to one partition."""
_MOST_SMALL: Final = 2**15


def partition_of(keys: pa.Array, count: int) -> Longs:
    """The partition of each key among `count`; NO_PARTITION for null keys, which go to the partitions in turn."""
    if count < 1:
        raise ValueError(f"a topic has at least one partition, not {count}")
    partitions = np.full(len(keys), NO_PARTITION, np.int64)
    choose_partitions(binary_rows("key", keys), count, partitions)
    return partitions


def highest_partition(rows: pa.RecordBatch) -> int:
    """The highest partition in the column partition; NO_PARTITION if there is none."""
    if "partition" not in rows.schema.names:
        return NO_PARTITION
    highest = pc.max(rows.column("partition")).as_py()
    return NO_PARTITION if highest is None else int(highest)


class Partitioner:
    """Splits rows by partition. It remembers the next partition, so that small writes are distributed as well."""

    def __init__(self, first_partition: int = 0) -> None:
        self._turn = first_partition

    def split(self, rows: pa.RecordBatch, partition_count: int) -> Iterator[tuple[int, pa.RecordBatch]]:
        """Each partition with rows, and its rows in order."""
        if rows.num_rows == 0:
            return
        chosen = self._choose(rows, partition_count)
        first = int(chosen[0])
        if (chosen == first).all():
            yield first, rows
            return
        # Numpy sorts 16-bit numbers by radix, which is many times faster.
        small = chosen.astype(np.int16) if partition_count <= _MOST_SMALL else chosen
        order = np.argsort(small, kind="stable")
        sorted_rows = rows.take(pa.array(order))
        start = 0
        for partition, count in enumerate(np.bincount(chosen, minlength=partition_count)):
            if count:
                yield partition, sorted_rows.slice(start, int(count))
            start += int(count)

    def _choose(self, rows: pa.RecordBatch, partition_count: int) -> Any:
        names = rows.schema.names
        chosen = np.full(rows.num_rows, NO_PARTITION, np.int64)
        if "key" in names:
            chosen = partition_of(rows.column("key"), partition_count)
        if "partition" in names:
            named = rows.column("partition").cast(pa.int64()).fill_null(NO_PARTITION).to_numpy(zero_copy_only=False)
            if len(wrong := named[(named < NO_PARTITION) | (named >= partition_count)]):
                raise ValueError(f"the column partition names partition {wrong[0]}, the topic has {partition_count}")
            chosen = np.where(named == NO_PARTITION, chosen, named)
        free = np.flatnonzero(chosen == NO_PARTITION)
        if len(free):
            chosen[free] = self._turns(len(free), partition_count)
        return chosen

    def _turns(self, count: int, partition_count: int) -> Any:
        run = max(-(-count // partition_count), min(count, _SHORTEST_RUN))
        runs = np.arange(count) // run
        turns = (runs + self._turn) % partition_count
        self._turn = int(turns[-1] + 1) % partition_count
        return turns
