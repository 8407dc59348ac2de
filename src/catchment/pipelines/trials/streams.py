"""Topics of a trial as Spark reads them: a file for each batch, decoded beforehand by the decoders that a run has.

Spark takes one file at a time, so a batch of the trial is a batch of the query, also where it is empty. No worker in Python is
needed, which would take longer to start than most trials take.

What a run's source learns from the checkpoint, the watermark of the batch and its number, is put into properties of the JVM, where
an expression finds them: in a trial, Spark's tasks run in that same JVM.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import pyarrow as pa
from pyarrow import parquet
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import LongType, StructField, StructType

from catchment.pipelines.execution.session import read_stream
from catchment.pipelines.trials.rows import TrialLog
from catchment.spark.checkpoint.progress import SparkCheckpoint
from catchment.spark.formats.decoding import Decoding
from catchment.spark.source.columns import BATCH_ID, BATCH_TIME, WATERMARK, source_schema

_FROM: Final = "_from"
_UNTIL: Final = "_until"
_FOR_EVER: Final = 2**62
_FIRST_TIME_S: Final = 1_000_000_000


@dataclass(frozen=True)
class TrialStreams:
    """The topics of a log, for the queries of one trial."""

    spark: SparkSession
    log: TrialLog
    scratch: Path

    def stream(self, topic: str, query: str, options: Mapping[str, str]) -> DataFrame:
        """A topic as a stream, with all columns of the source."""
        decoding = Decoding.read(options, [topic])
        schema = source_schema(decoding, include_headers=True)
        columns = to_arrow_schema(schema, timezone="UTC")
        folder = self.scratch / "streams" / query / topic
        folder.mkdir(parents=True, exist_ok=True)
        for number, batch in enumerate(self.log.read(topic)):
            file = folder / f"{number:05}.parquet"
            parquet.write_table(pa.Table.from_batches([decoding.apply(batch, columns)]), file)
            # Spark takes the oldest file first.
            os.utime(file, (_FIRST_TIME_S + number, _FIRST_TIME_S + number))
        reader = read_stream(self.spark, topic).format("parquet").schema(schema).option("maxFilesPerTrigger", 1)
        rows = reader.load(str(folder)).withColumn(BATCH_TIME, F.current_timestamp())
        rows = rows.withColumn(BATCH_ID, self._property(query, "batch"))
        return rows.withColumn(WATERMARK, F.timestamp_millis(self._property(query, "watermark")))

    def table(self, topic: str, query: str, options: Mapping[str, str]) -> DataFrame:
        """A topic as a table: each row with the batches in which it is the last of its key, and only those of the batch."""
        decoding = Decoding.read(options, [topic])
        fields = source_schema(decoding, include_headers=False)
        schema = StructType([fields["value"], StructField(_FROM, LongType()), StructField(_UNTIL, LongType())])
        values = to_arrow_schema(StructType([fields["value"]]), timezone="UTC")
        folder = self.scratch / "tables" / query / topic
        folder.mkdir(parents=True, exist_ok=True)
        batches = [_without_broken(batch, decoding) for batch in self.log.read(topic)]
        ends = row_ends([batch.column("key").to_pylist() for batch in batches])
        for number, batch in enumerate(batches):
            rows = decoding.apply(batch, values)
            rows = rows.append_column(_FROM, pa.array([number] * batch.num_rows, pa.int64()))
            rows = rows.append_column(_UNTIL, pa.array(ends[number], pa.int64()))
            parquet.write_table(pa.Table.from_batches([rows]), folder / f"{number:05}.parquet")
        found = self.spark.read.schema(schema).parquet(str(folder))
        batch_id = self._property(query, "batch")
        now = (F.col(_FROM) <= batch_id) & (batch_id < F.col(_UNTIL))
        return found.where(now & F.col("value").isNotNull()).select("value.*")

    def tell_batch(self, query: str, batch_id: int) -> None:
        """Make known which batch is next; to be called before Spark plans it, for it reads tables while it plans."""
        self._tell(query, "batch", batch_id)

    def tell_watermark(self, query: str, checkpoint: str, batch_id: int) -> None:
        """Make known what Spark has planned for a batch; to be called before its rows are computed."""
        self._tell(query, "watermark", SparkCheckpoint.at(checkpoint).plan(batch_id).watermark_ms)

    def _tell(self, query: str, fact: str, number: int) -> None:
        jvm = self.spark.sparkContext._jvm
        assert jvm is not None, "a started context has a JVM"
        jvm.java.lang.System.setProperty(self._name(query, fact), str(number))

    def _property(self, query: str, fact: str) -> Column:
        return F.expr(f"reflect('java.lang.System', 'getProperty', '{self._name(query, fact)}')").cast("bigint")

    def _name(self, query: str, fact: str) -> str:
        return f"{self.scratch.name}.{query}.{fact}"


def _without_broken(batch: pa.RecordBatch, decoding: Decoding) -> pa.RecordBatch:
    """The records of a table that take the place of others; all of them, where one that is broken is to fail."""
    if not decoding.keeps_errors:
        return batch
    errors = decoding.apply(batch, pa.schema([("valueError", pa.string())])).column("valueError")
    return batch.filter(errors.is_null())


def row_ends(keys: list[list[bytes]]) -> list[list[int]]:
    """For each row of each batch, the batch in which another of its key takes its place: its own, if that comes later in it."""
    ends: list[list[int]] = []
    taken: dict[bytes, int] = {}
    for number in reversed(range(len(keys))):
        found = []
        for key in reversed(keys[number]):
            found.append(taken.get(key, _FOR_EVER))
            taken[key] = number
        ends.insert(0, found[::-1])
    return ends
