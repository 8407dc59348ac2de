"""What every lake can do, whatever its format.

A batch is written in three steps: the lake says how its files are to be laid out, the tasks of a Spark job write them where nobody
looks yet, and the driver commits them together with the number of the batch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from catchment.pipelines.lakes.file_writing import FileLayout, WrittenFile
from catchment.pipelines.lakes.folder import Folder
from catchment.pipelines.lakes.partitioning import PartitionColumn, with_partition_columns
from catchment.pipelines.lakes.schemas import arrow_schema

if TYPE_CHECKING:
    import pyarrow
    import pyarrow.dataset
    from pyspark.sql import DataFrame, SparkSession


class Maintenance(NamedTuple):
    """What was done to keep a lake in shape."""

    files_compacted: int
    files_written: int
    files_removed: int


class Lake(ABC):
    """A folder of Parquet files that only grows, by whole batches."""

    def __init__(self, folder: Folder, partition_by: Sequence[PartitionColumn]) -> None:
        self.folder = folder
        self.location = folder.location
        self._partition_by = tuple(partition_by)

    def write(self, rows: DataFrame, query: str, batch_id: int) -> bool:
        """Add the rows of a query's batch; False, and nothing is computed, if this batch or a later one is there already."""
        from catchment.pipelines.lakes.spark_tasks import write_by_tasks

        if (last := self.last_batch(query)) is not None and last >= batch_id:
            return False
        partitioned = with_partition_columns(rows, self._partition_by)
        layout = self.prepare(arrow_schema(partitioned.schema), query, batch_id)
        return self.commit(write_by_tasks(partitioned, self.folder, layout), layout, query, batch_id)

    @abstractmethod
    def prepare(self, schema: pyarrow.Schema, query: str, batch_id: int) -> FileLayout:
        """Make the lake if there is none, add columns that it has not, and say how the files of a batch are to be written."""

    @abstractmethod
    def commit(self, written: Sequence[WrittenFile], layout: FileLayout, query: str, batch_id: int) -> bool:
        """Make files part of the lake; False if the batch is there already. Without files nothing is committed."""

    @abstractmethod
    def last_batch(self, query: str) -> int | None:
        """The number of the query's newest batch in the lake; batches without rows leave no trace."""

    @abstractmethod
    def dataset(self, version: int | None = None) -> pyarrow.dataset.Dataset:
        """All rows as an Arrow dataset, which DuckDB and Polars scan without loading it."""

    @abstractmethod
    def read_spark(self, spark: SparkSession, version: int | None = None) -> DataFrame:
        """All rows, as of now or of a version of the lake."""

    @abstractmethod
    def maintain(self) -> Maintenance:
        """Compact small files and remove what nobody needs any more; safe beside writers and readers."""

    @abstractmethod
    def describe(self) -> Mapping[str, Any]:
        """Facts for people and scripts; the values are as JSON takes them."""

    @property
    def partition_columns(self) -> tuple[str, ...]:
        return tuple(column.name for column in self._partition_by)

    def read_arrow(self, version: int | None = None) -> pyarrow.Table:
        return self.dataset(version).to_table()
