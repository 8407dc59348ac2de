"""The SQL of a stage, over what the stage reads and nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def sql_rows(spark: SparkSession, sql: str, inputs: Mapping[str, DataFrame]) -> DataFrame:
    """What a statement gives; `inputs` has the tables that it may name.

    All stages share a session. Spark looks names up at once, so they are gone before another stage could find them, which would
    read them as of a query that is not its own.
    """
    try:
        for name, rows in inputs.items():
            rows.createOrReplaceTempView(f"`{name}`")
        return spark.sql(sql)
    finally:
        for name in inputs:
            spark.catalog.dropTempView(name)
