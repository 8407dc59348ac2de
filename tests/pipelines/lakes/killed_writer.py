"""A driver without Spark that is there to be killed: it writes batch after batch until it has written the last one.

python killed_writer.py PATH FORMAT LAST_BATCH
"""

from __future__ import annotations

import sys

from tests.pipelines.lakes.lake_world import numbers, put

from catchment.pipelines.lakes import open_lake


def main(path: str, kind: str, last_batch: int) -> None:
    lake = open_lake(path, kind=kind, partition_by="district")
    last = lake.last_batch("board")
    # Like Spark, it may not know that its last batch was finished, and begins with it again.
    for batch_id in range(0 if last is None else last, last_batch + 1):
        put(lake, numbers(batch_id), "board", batch_id)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
