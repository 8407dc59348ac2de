"""Writes the batches of a stream, each row exactly once or at least once, as `deliveryGuarantee` says.

Spark makes a writer twice a batch: in a process that plans, from where it goes to the tasks, and in another that commits.
So nothing is kept here from batch to batch; what must be remembered is in the checkpoint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

import pyarrow
from pyspark.sql.datasource import DataSourceStreamArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType
from typing_extensions import override

from catchment.client.errors import SettingsError
from catchment.spark import two_phase
from catchment.spark.commit_list import Repeat, TaskMessage
from catchment.spark.garbage import set_aside_what_is_loaded
from catchment.spark.ledger import Ledger
from catchment.spark.sink_options import SinkOptions
from catchment.spark.sink_rows import check_columns
from catchment.spark.sink_task import write_in_transaction, write_plain
from catchment.spark.sink_transactions import SinkTransactions, transactional_id
from catchment.spark.task_facts import TaskFacts, current_task


class StreamWriter(DataSourceStreamArrowWriter):
    """The writer of one batch. To make one finishes what an earlier batch has decided."""

    def __init__(self, options: Mapping[str, str], schema: StructType) -> None:
        self._options = SinkOptions.read(options)
        check_columns(schema, self._options.topic)
        self._unfinished: two_phase.Unfinished | None = None
        if self._options.is_exactly_once:
            ledger = self._ledger()
            if not ledger.is_sparks():
                raise SettingsError(
                    f"Spark has no checkpoint at {self._options.checkpoint} as seen from the sink",
                    "Spark takes a path without a scheme for one of its default file system: give checkpointLocation with "
                    "its scheme, such as hdfs://… or file:/….",
                )
            self._unfinished = two_phase.recover(ledger, SinkTransactions(self._options))
        # The processes beside the driver that make writers collect garbage after each as well.
        set_aside_what_is_loaded()

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        task = current_task()
        if self._options.is_exactly_once:
            return self._write_once(task, iterator)
        write_plain(self._options, iterator, _first_partition(task))
        return TaskMessage(task.spark_partition, task.query_id, Repeat(), None)

    @override
    def commit(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Decide the batch, and make its rows visible."""
        if self._options.is_exactly_once:
            two_phase.commit(self._ledger(), SinkTransactions(self._options), batchId, _ours(messages))

    @override
    def abort(self, messages: Sequence[WriterCommitMessage | None], batchId: int) -> None:
        """Give up what is not decided."""
        if self._options.is_exactly_once:
            two_phase.abort(self._ledger(), SinkTransactions(self._options), batchId, _ours(messages))

    def _write_once(self, task: TaskFacts, batches: Iterator[pyarrow.RecordBatch]) -> TaskMessage:
        plan = two_phase.plan_task(self._unfinished, task.query_id, task.batch_id, task.spark_partition)
        counted = _Counted(batches)
        transaction = None
        if plan.does_write:
            name = transactional_id(self._options, task.query_id, task)
            transaction = write_in_transaction(
                self._options, counted, name, task.spark_partition, _first_partition(task)
            )
        else:
            # What comes before the sink in the plan, such as state, is kept only if all rows are asked for.
            for _ in counted:
                pass
        if plan.row_count not in (None, counted.row_count):
            if transaction is not None:
                SinkTransactions(self._options).abort([transaction])
            raise two_phase.changed_batch(
                task.batch_id,
                f"{plan.row_count} rows in Spark partition {task.spark_partition}",
                str(counted.row_count),
            )
        return TaskMessage(task.spark_partition, task.query_id, plan.repeat, transaction)

    def _ledger(self) -> Ledger:
        if self._options.checkpoint is None:
            raise SettingsError(
                "deliveryGuarantee=exactlyOnce needs to know where the query's checkpoint is",
                'Add .option("checkpointLocation", "…") to writeStream (spark.sql.streaming.checkpointLocation does not '
                "reach the sink), or set deliveryGuarantee=atLeastOnce.",
            )
        return Ledger.at(self._options.checkpoint)


class _Counted:
    """Batches, and how many rows have gone by."""

    def __init__(self, batches: Iterable[pyarrow.RecordBatch]) -> None:
        self._batches = batches
        self.row_count = 0

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        for batch in self._batches:
            self.row_count += batch.num_rows
            yield batch


def _first_partition(task: TaskFacts) -> int:
    """Where rows without a key begin: another partition each time, or small batches would all go to the first."""
    return task.spark_partition + task.batch_id


def _ours(messages: Sequence[WriterCommitMessage | None]) -> list[TaskMessage]:
    return [one for one in messages if isinstance(one, TaskMessage)]
