"""The last row of each key."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa

_ROW: Final = "row"


def last_of_each_key(keys: pa.Table) -> Any:
    """The indexes of the rows whose key no later row has, in order. The columns are the parts of the key."""
    # The parts get other names, so that none clashes with that of the index.
    names = [f"key{position}" for position in range(keys.num_columns)]
    numbered = keys.rename_columns(names).append_column(_ROW, pa.array(np.arange(keys.num_rows)))
    last = numbered.group_by(names, use_threads=False).aggregate([(_ROW, "max")]).column(f"{_ROW}_max")
    return last.combine_chunks().sort()
