"""Writes the rows of a batch job. With exactlyOnce all of them become visible together, when the last task is done.

Inside `foreachBatch`, with the checkpoint of the stream as an option, they are written exactly once as a stream's own sink
does it: a repeated batch writes only what has not become visible.

Without the checkpoint, ids of transactions are used again from batch to batch of the stream, or brokers would keep one for each
task of every batch for `transactional.id.expiration.ms`, a week. Outside of a stream they are new for every job.

Gaps
    A driver killed while it ends the transactions of a job without a checkpoint leaves some of them to be aborted by their
    time-out: there is no record of the decision.

    Only tasks know the stream of a write without a checkpoint. If the write fails before the first task has finished, transactions
    of killed tasks are aborted when the batch is repeated, or by their time-out.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping, Sequence

import pyarrow
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from catchment.client.errors import ClientError, SettingsError
from catchment.client.transaction_outcomes import Outcome
from catchment.spark.sink.batch_times import check_timestamp
from catchment.spark.sink.commit_list import Repeat, TaskMessage, Transaction
from catchment.spark.sink.exactly_once_task import OnceWriting
from catchment.spark.sink.options import SinkOptions
from catchment.spark.sink.rows import check_columns
from catchment.spark.sink.task import write_in_transaction, write_plain
from catchment.spark.sink.transactions import SinkTransactions, transactional_id
from catchment.spark.sink.values import ValueEncoding
from catchment.spark.task_facts import TaskFacts, current_task


class BatchWriter(DataSourceArrowWriter):
    """Made on the driver, sent to every task, and used again on the driver when all are done."""

    def __init__(self, options: Mapping[str, str], schema: StructType, overwrite: bool) -> None:
        if overwrite:
            raise SettingsError("a topic cannot be overwritten", 'Use .mode("append"); delete its records beforehand.')
        self._options = SinkOptions.read(options)
        self._values = ValueEncoding.read(options, schema)
        check_columns(self._values.written(schema), self._options.topic)
        if self._options.has_rising_timestamps:
            check_timestamp(schema)
        self._job_id = str(uuid.uuid4())
        is_of_stream = self._options.is_exactly_once and self._options.checkpoint is not None
        self._once = OnceWriting.begin(self._options) if is_of_stream else None
        self._batch_id = -1 if self._once is None else self._once.running_batch()

    def write(self, iterator: Iterator[pyarrow.RecordBatch]) -> WriterCommitMessage:
        """Write one task's rows."""
        task = current_task()
        iterator = self._values.apply(iterator)
        if self._once is not None:
            self._check_stream(task)
            return self._once.write(task, iterator)
        transaction = None
        job = self._job_id
        if self._options.is_exactly_once:
            job = self._job_of(task)
            name = transactional_id(self._options, job, task)
            transaction = write_in_transaction(
                self._options, iterator, name, task.spark_partition, first_partition=task.spark_partition
            )
        else:
            write_plain(self._options, iterator, first_partition=task.spark_partition)
        return TaskMessage(task.spark_partition, job, Repeat(), transaction)

    def commit(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Make the rows of all tasks visible."""
        if self._once is not None:
            self._once.commit(messages, self._batch_id)
            return
        transactions = SinkTransactions(self._options)
        written = _written(messages)
        outcomes = transactions.commit(written)
        lost = [
            one.spark_partition
            for one, outcome in zip(written, outcomes, strict=True)
            if outcome is not Outcome.COMMITTED
        ]
        if lost:
            raise ClientError(
                f"the rows of Spark partitions {lost} were not written, those of the other {len(written) - len(lost)} were",
                "Either their transactions timed out before all tasks were done: raise kafka.transaction.timeout.ms (and "
                "transaction.max.timeout.ms of the brokers, which bounds it), or write less at a time. Or another write to the "
                "topic went on at the same time in foreachBatch: give each a sinkName of its own.",
            )
        if self._options.is_exactly_once:
            for job in _jobs(messages):
                transactions.sweep(job)

    def abort(self, messages: Sequence[WriterCommitMessage | None]) -> None:
        """Give up what the tasks have written, unless `commit` has made it visible."""
        if self._once is not None:
            self._once.abort(messages, self._batch_id)
            return
        transactions = SinkTransactions(self._options)
        transactions.abort(_written(messages))
        if self._options.is_exactly_once:
            for job in _jobs(messages) or {self._job_id}:
                transactions.sweep(job, while_tasks_end=None in messages)

    def _job_of(self, task: TaskFacts) -> str:
        """What ids of transactions are made of: one for all writes of a stream to a topic, which follow each other."""
        if not task.query_id:
            return self._job_id
        # An id of its own: neither the stream's own sink nor a write to a topic of a longer name is meant when this is swept.
        return str(uuid.uuid5(uuid.NAMESPACE_OID, f"{task.query_id}/{self._options.topic or ''}"))

    def _check_stream(self, task: TaskFacts) -> None:
        """A job that is not of the batch that the checkpoint names would be decided as if it were."""
        if task.batch_id != self._batch_id:
            batch = f"batch {task.batch_id} of a stream" if task.batch_id >= 0 else "no batch of a stream"
            raise SettingsError(
                f"checkpointLocation is {self._options.checkpoint}, where batch {self._batch_id} is under way, but this is "
                f"{batch}",
                "Inside foreachBatch, give checkpointLocation of the stream itself; outside of one, leave it out.",
            )
        if task.run_id and not _is_uuid(task.run_id):
            # A repeated batch could not be distinguished from a second write.
            raise SettingsError(
                f"the write in batch {task.batch_id} belongs to the job group {task.run_id!r}, which hides the run of its query",
                "Do not call setJobGroup in foreachBatch before the write.",
            )


def _is_uuid(text: str) -> bool:
    try:
        return bool(uuid.UUID(text))
    except ValueError:
        return False


def _jobs(messages: Sequence[WriterCommitMessage | None]) -> set[str]:
    return {one.query_id for one in messages if isinstance(one, TaskMessage)}


def _written(messages: Sequence[WriterCommitMessage | None]) -> list[Transaction]:
    return [one.transaction for one in messages if isinstance(one, TaskMessage) and one.transaction is not None]
