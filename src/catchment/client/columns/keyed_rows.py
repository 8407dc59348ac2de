"""Rows that have a key: which of them is the last of its own."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

_ROW: Final = "row"


def last_of_each_key(keys: pa.Table) -> Any:
    """The numbers of the rows that no later one has the key of, in their order; the columns are the parts of the key."""
    # Whatever the parts are called, none is called as the number is.
    names = [f"key{position}" for position in range(keys.num_columns)]
    numbered = keys.rename_columns(names).append_column(_ROW, pa.array(np.arange(keys.num_rows)))
    last = numbered.group_by(names, use_threads=False).aggregate([(_ROW, "max")]).column(f"{_ROW}_max")
    return last.combine_chunks().sort()
