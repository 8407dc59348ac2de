"""Lakes as DataFrames, read by Spark's own Parquet reader: no jar is needed.

A Delta table's files are taken from its log, and so are their partition values: by the name of the file, which is unique, because
other writers may escape the names of folders in other ways than Spark.
"""

from __future__ import annotations

from typing import Final

import pyarrow
from deltalake import DeltaTable
from pyspark.sql import DataFrame, SparkSession, functions
from pyspark.sql.pandas.types import from_arrow_schema

from catchment.pipelines.lakes.errors import LakeRefused

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
