"""The formats "catchment-trial" and "catchment-trial-table": the source and the table, reading a `TrialLog` instead of a broker.

Records pass through the same decoders and have the same columns. A batch of Spark is a batch of the trial, also where it is
empty, so that the numbers of batches are the same in all queries.
"""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import SparkSession
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow
from pyspark.sql.types import StructType
from typing_extensions import override

from catchment.pipelines.trials.trial_log import count, read_batch
from catchment.spark.formats.decoding import Decoding
from catchment.spark.source_columns import WATERMARK, source_schema
from catchment.spark.spark_checkpoint import SparkCheckpoint
from catchment.spark.task_facts import current_task

STREAM: Final = "catchment-trial"
TABLE: Final = "catchment-trial-table"
_ANY_NUMBER: Final = 2**62


def register_trials(spark: SparkSession) -> None:
    """Make both formats known to a session."""
    spark.dataSource.register(TrialDataSource)
    spark.dataSource.register(TrialTableDataSource)


@dataclass(frozen=True)
class TrialPartition(InputPartition):
    """Batches of one topic."""

    start: int
    end: int
    watermark_ms: int


class TrialDataSource(DataSource):
    """A topic of a trial as a stream."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._decoding = Decoding.read(options, [])

    @classmethod
    def name(cls) -> str:
        return STREAM

    def schema(self) -> StructType:
        return source_schema(self._decoding, include_headers=True, include_watermark=True)

    @override
    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        return TrialStreamReader(Path(self.options["folder"]), self.options["watermarkFrom"], self._decoding, schema)


class TrialStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Takes one batch of the trial after the other."""

    def __init__(self, folder: Path, checkpoint: str, decoding: Decoding, schema: StructType) -> None:
        self._folder = folder
        self._checkpoint = checkpoint
        self._decoding = decoding
        self._schema = to_arrow_schema(schema, timezone="UTC")

    @override
    def initialOffset(self) -> dict[str, Any]:
        return {"batch": 0}

    @override
    def getDefaultReadLimit(self) -> ReadLimit:
        return ReadMaxRows(_ANY_NUMBER)

    @override
    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:
        return {"batch": min(start["batch"] + 1, count(self._folder))}

    @override
    def prepareForTriggerAvailableNow(self) -> None:
        """All batches are there before the query starts."""

    @override
    def reportLatestOffset(self) -> dict[str, Any] | None:
        return {"batch": count(self._folder)}

    @override
    def partitions(self, start: dict[str, Any], end: dict[str, Any]) -> list[TrialPartition]:
        checkpoint = SparkCheckpoint.at(self._checkpoint)
        newest = checkpoint.newest_planned()
        watermark_ms = 0 if newest is None else checkpoint.plan(newest).watermark_ms
        return [TrialPartition(start["batch"], end["batch"], watermark_ms)]

    @override
    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, TrialPartition)
        for number in range(partition.start, partition.end):
            for batch in read_batch(self._folder, number).to_batches():
                watermark = pa.scalar(partition.watermark_ms * 1000, pa.timestamp("us", tz="UTC"))
                whole = batch.append_column(WATERMARK, pa.repeat(watermark, batch.num_rows))
                yield self._decoding.apply(whole, self._schema)

    @override
    def commit(self, end: dict[str, Any]) -> None:
        """Nothing is forgotten."""

    @override
    def stop(self) -> None:
        """Nothing is open."""


class TrialTableDataSource(DataSource):
    """A topic of a trial as a table: the last row of each key, as of the batch that reads it."""

    def __init__(self, options: MutableMapping[str, str]) -> None:
        super().__init__(options)
        self._decoding = Decoding.read(options, [])

    @classmethod
    def name(cls) -> str:
        return TABLE

    def schema(self) -> StructType:
        return source_schema(self._decoding, include_headers=False)

    def reader(self, schema: StructType) -> DataSourceReader:
        return TrialTableReader(Path(self.options["folder"]), self._decoding, schema)


class TrialTableReader(DataSourceReader):
    """Reads the table in one task, which knows the batch that it works for."""

    def __init__(self, folder: Path, decoding: Decoding, schema: StructType) -> None:
        self._folder = folder
        self._decoding = decoding
        self._schema = to_arrow_schema(schema, timezone="UTC")

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(0)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        last = min(current_task().batch_id + 1, count(self._folder))
        newest: dict[bytes, dict[str, Any]] = {}
        for number in range(last):
            batches = read_batch(self._folder, number).to_batches()
            for row in [one for batch in batches for one in batch.to_pylist()]:
                newest.pop(row["key"], None)
                if row["value"] is not None:
                    newest[row["key"]] = row
        rows = pa.RecordBatch.from_pylist(list(newest.values()), read_batch(self._folder, 0).schema)
        yield self._decoding.apply(rows, self._schema)
