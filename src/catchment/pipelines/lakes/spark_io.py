"""Lakes and DataFrames: read by Spark's own Parquet reader, without a jar, and written by the tasks of a job.

The files of a Delta table are taken from its log, and so are their partition values: by the name of the file, which is unique, because
other writers may escape the names of folders in other ways than Spark.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

import pyarrow
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import from_arrow_schema

from catchment.pipelines.lakes.file_writing import FileLayout, WrittenFile, write_files
from catchment.pipelines.lakes.folder import Folder
from catchment.pipelines.lakes.lake_errors import LakeRefused

_NAME: Final = "__file_name"


def read_delta(spark: SparkSession, table: DeltaTable) -> DataFrame:
    features = set(table.protocol().reader_features or ()) - {"timestampNtz"}
    if features:
        raise LakeRefused(
            f"the lake {table.table_uri} needs {', '.join(sorted(features))} of its readers",
            "Read it with Delta's own jar.",
        )
    schema = from_arrow_schema(pyarrow.schema(table.schema().to_arrow()))
    files = table.file_uris()
    if not files:
        return spark.createDataFrame([], schema)
    partitions = table.metadata().partition_columns
    in_files = schema.fields if not partitions else [field for field in schema.fields if field.name not in partitions]
    reader = spark.read.schema(type(schema)(in_files)).option("recursiveFileLookup", "true")
    rows = reader.parquet(*files)
    if not partitions:
        return rows
    actions = pyarrow.table(table.get_add_actions(flatten=False))
    names = [path.rpartition("/")[2] for path in actions.column("path").to_pylist()]
    values = actions.column("partition").combine_chunks().to_pylist()
    kinds = ", ".join(f"`{name}` {schema[name].dataType.simpleString()}" for name in partitions)
    known = spark.createDataFrame(
        [(name, *(value[one] for one in partitions)) for name, value in zip(names, values, strict=True)],
        f"{_NAME} string, {kinds}",
    )
    found = rows.withColumn(_NAME, functions.col("_metadata.file_name"))
    return found.join(functions.broadcast(known), _NAME).select(*schema.names)


_WRITTEN: Final = "path string, size_bytes long, rows long, partition_values map<string, string>, statistics string"
_WRITTEN_ARROW: Final = pyarrow.schema(
    [
        ("path", pyarrow.string()),
        ("size_bytes", pyarrow.int64()),
        ("rows", pyarrow.int64()),
        ("partition_values", pyarrow.map_(pyarrow.string(), pyarrow.string())),
        ("statistics", pyarrow.string()),
    ]
)


def write_by_tasks(rows: DataFrame, folder: Folder, layout: FileLayout) -> list[WrittenFile]:
    """Run the job; returns the files of the successful attempt of each task."""

    def write(batches: Iterable[pyarrow.RecordBatch]) -> Iterator[pyarrow.RecordBatch]:
        written = [
            {**one._asdict(), "partition_values": list(one.partition_values.items())}
            for one in write_files(batches, folder, layout)
        ]
        yield pyarrow.RecordBatch.from_pylist(written, schema=_WRITTEN_ARROW)

    return [WrittenFile(*one) for one in rows.mapInArrow(write, _WRITTEN).collect()]
