"""From a DataFrame to files of a lake: the tasks of a job write them, the driver is told their names."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow
from pyspark.sql import DataFrame

from catchment.pipelines.lakes.file_writing import FileLayout, WrittenFile, write_files
from catchment.pipelines.lakes.folder import Folder

_TOLD: Final = "path string, size_bytes long, rows long, partition_values map<string, string>, statistics string"
_TOLD_IN_ARROW: Final = pyarrow.schema(
    [
        ("path", pyarrow.string()),
        ("size_bytes", pyarrow.int64()),
        ("rows", pyarrow.int64()),
        ("partition_values", pyarrow.map_(pyarrow.string(), pyarrow.string())),
        ("statistics", pyarrow.string()),
    ]
)


def write_by_tasks(rows: DataFrame, folder: Folder, layout: FileLayout) -> list[WrittenFile]:
    """Run the job. Of a task that was tried more than once, only the attempt that counts is told of."""

    def write(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        told = [
            {**one._asdict(), "partition_values": list(one.partition_values.items())}
            for one in write_files(batches, folder, layout)
        ]
        yield pyarrow.RecordBatch.from_pylist(told, schema=_TOLD_IN_ARROW)

    return [WrittenFile(*told) for told in rows.mapInArrow(write, _TOLD).collect()]
