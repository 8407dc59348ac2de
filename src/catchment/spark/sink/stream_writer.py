"""Writes the batches of a stream, each row exactly once or at least once, as `deliveryGuarantee` says.

Spark makes a writer twice a batch: in a process that plans, from where it goes to the tasks, and in another that commits.
So nothing is kept here from batch to batch; what must be remembered is in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pyarrow
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from typing_extensions import override

from catchment.spark.launch.python_workers import freeze_loaded_objects
from catchment.spark.sink.batch_times import check_timestamp
from catchment.spark.sink.commit_list import Repeat, TaskMessage
from catchment.spark.sink.exactly_once_task import OnceWriting, first_partition
from catchment.spark.sink.options import SinkOptions
from catchment.spark.sink.rows import check_columns
from catchment.spark.sink.task import write_plain
from catchment.spark.sink.values import ValueEncoding
from catchment.spark.task_facts import current_task


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of one batch. To make one finishes what an earlier batch has decided."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = SinkOptions.read(options)
        self._values = ValueEncoding.read(options, schema)
        check_columns(self._values.written(schema), self._options.topic)
        if self._options.has_rising_timestamps:
            check_timestamp(schema)
        self._once = OnceWriting.begin(self._options) if self._options.is_exactly_once else None
        # The processes beside the driver that make writers collect garbage after each as well.
        freeze_loaded_objects()

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        task = current_task()
        iterator = self._values.apply(iterator)
        if self._once is not None:
            return self._once.write(task, iterator)
        write_plain(self._options, iterator, first_partition(task))
        return TaskMessage(task.spark_partition, task.query_id, Repeat(), None)

    @override
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Decide the batch, and make its rows visible."""
        if self._once is not None:
            self._once.commit(messages, batchId)

    @override
    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Give up what is not decided."""
        if self._once is not None:
            self._once.abort(messages, batchId)
