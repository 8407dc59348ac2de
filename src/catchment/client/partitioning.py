"""Which partition a key goes to, as the Java client chooses it, so that both write equal keys to one place."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from catchment.client.arrays import Longs
from catchment.client.arrow_input import binary_rows
from catchment.client.encode_kernels import choose_partitions

NO_PARTITION = -1


def partition_of(keys: pa.Array, count: int) -> Longs:
    """The partition of each key among `count`; NO_PARTITION for null ones, which the producer spreads as it likes."""
    if count < 1:
        raise ValueError(f"a topic has at least one partition, not {count}")
    partitions = np.full(len(keys), NO_PARTITION, np.int64)
    choose_partitions(binary_rows("key", keys), count, partitions)
    return partitions
