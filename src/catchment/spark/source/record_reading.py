"""What a task does: read a range of one partition and give it to Spark as Arrow batches, in the order of offsets.

A batch that needs no decoding is handed on as the client made it; nothing is copied on its way to Spark.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from kio.schema.errors import ErrorCode
from pyspark.sql.datasource import InputPartition
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from catchment.client.errors import BrokerError
from catchment.client.reader import OffsetOutOfRange, Reader, Span
from catchment.spark.formats.decoding import Decoding
from catchment.spark.launch.python_workers import freeze_loaded_objects
from catchment.spark.options.connection import Connection
from catchment.spark.source.columns import BATCH_COLUMNS, BATCH_ID, BATCH_TIME, WATERMARK
from catchment.spark.source.data_loss import data_lost
from catchment.spark.source.options import SourceOptions
from catchment.spark.source.planning import BatchFacts, OffsetRange, RangePartition

_TIMESTAMP: Final = pa.timestamp("us", tz="UTC")


@dataclass(frozen=True)
class RecordReading:
    """Everything a task needs to know, and no more: it is pickled with every plan."""

    connection: Connection
    decoding: Decoding
    schema: pa.Schema
    read_committed: bool
    fail_on_data_loss: bool

    @classmethod
    def of(cls, options: SourceOptions, decoding: Decoding, schema: StructType) -> RecordReading:
        return cls(
            options.connection,
            decoding,
            to_arrow_schema(schema, timezone="UTC"),
            options.read_committed,
            options.fail_on_data_loss,
        )

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The rows of one Spark partition."""
        # A batch query without anything to read still gets one task, for a partition that is not ours.
        if isinstance(partition, RangePartition):
            for batch in self._read(partition.offsets):
                yield self._finished(batch, partition.facts)
                freeze_loaded_objects()

    def _finished(self, batch: pa.RecordBatch, facts: BatchFacts) -> pa.RecordBatch:
        values = {
            WATERMARK: _moment(facts.watermark_ms),
            BATCH_TIME: _moment(facts.time_ms),
            BATCH_ID: pa.scalar(facts.batch_id, pa.int64()),
        }
        for name, value in values.items():
            if name in self.schema.names:
                batch = batch.append_column(name, pa.repeat(value, batch.num_rows))
        if self.decoding.decoders:
            return self.decoding.apply(batch, self.schema)
        return batch if batch.schema.names == self.schema.names else batch.select(self.schema.names)

    def _read(self, wanted: OffsetRange) -> Iterator[pa.RecordBatch]:
        # Rows must be counted even where nothing of them is asked for but the facts of the batch.
        of_records = [name for name in self.schema.names if name not in BATCH_COLUMNS]
        columns = self.decoding.raw_columns(of_records) or ["offset"]
        left = wanted
        while left.size:
            span = Span(left.topic, left.partition, left.start, left.end)
            try:
                with Reader(
                    self.connection.cluster(),
                    [span],
                    columns=columns,
                    read_committed=self.read_committed,
                    timeout_s=self.connection.timeout_s,
                ) as reader:
                    for read in reader:
                        yield read.batch
                        left = left._replace(start=read.next_offset)
                return
            except OffsetOutOfRange as gone:
                left = self._after_loss(left, gone)
            except BrokerError as error:
                if error.code not in (ErrorCode.unknown_topic_or_partition, ErrorCode.unknown_topic_id):
                    raise
                data_lost(f"{_named(left)} cannot be read: the topic is gone", fail=self.fail_on_data_loss)
                return

    def _after_loss(self, left: OffsetRange, gone: OffsetOutOfRange) -> OffsetRange:
        """What can still be read after the records that are gone."""
        start = min(gone.log_start, left.end) if gone.offset < gone.log_start else left.end
        data_lost(
            f"{_named(left._replace(start=gone.offset, end=start))} cannot be read: "
            f"the partition holds offsets {gone.log_start} to {gone.log_end}",
            fail=self.fail_on_data_loss,
        )
        return left._replace(start=start)


def _moment(time_ms: int | None) -> Any:
    return pa.scalar(None if time_ms is None else time_ms * 1000, _TIMESTAMP)


def _named(offsets: OffsetRange) -> str:
    return f"offsets {offsets.start} to {offsets.end} of topic {offsets.topic}, partition {offsets.partition},"
