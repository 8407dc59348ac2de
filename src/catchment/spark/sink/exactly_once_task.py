"""One batch of a stream, written exactly once, whether the stream's own sink or a write in `foreachBatch` does it.

What a task must know of earlier attempts at its batch is found out on the driver, when the writer is made, and goes with it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import pyarrow
from pyspark.sql.datasource import WriterCommitMessage

from catchment.client.errors import ClientError, SettingsError
from catchment.spark.sink import two_phase
from catchment.spark.sink.batch_times import BatchTimes, Risen
from catchment.spark.sink.commit_list import TaskMessage
from catchment.spark.sink.ledger import Ledger
from catchment.spark.sink.options import SinkOptions
from catchment.spark.sink.task import write_in_transaction
from catchment.spark.sink.transactions import SinkTransactions, transactional_id
from catchment.spark.task_facts import TaskFacts


@dataclass(frozen=True)
class OnceWriting:
    """Made on the driver, which finishes what an earlier batch has decided, and sent to the tasks."""

    options: SinkOptions
    unfinished: two_phase.Unfinished | None
    times: BatchTimes | None = None
    """Those of earlier batches, where times are to rise from batch to batch."""

    @classmethod
    def begin(cls, options: SinkOptions) -> OnceWriting:
        ledger = _ledger(options)
        if ledger.query_id() is None:
            raise SettingsError(
                f"Spark has no checkpoint at {options.checkpoint} as seen from the sink",
                "Spark takes a path without a scheme for one of its default file system: give checkpointLocation with "
                "its scheme, such as hdfs://… or file:/….",
            )
        unfinished = two_phase.recover(ledger, SinkTransactions(options))
        times = BatchTimes.of(ledger.newest(), ledger.checkpoint) if options.has_rising_timestamps else None
        return cls(options, unfinished, times)

    def write(self, task: TaskFacts, batches: Iterable[pyarrow.RecordBatch]) -> TaskMessage:
        """Write one task's rows."""
        plan = two_phase.plan_task(self.unfinished, task.query_id, task.batch_id, task.spark_partition, task.run_id)
        floor_ms = None if self.times is None else self.times.floor_of(task.batch_id)
        repeat = plan.repeat._replace(floor_ms=floor_ms)
        counted = _Counted(batches)
        transaction = None
        if plan.does_write:
            name = transactional_id(self.options, task.query_id, task)
            where = name, task.spark_partition, first_partition(task)
            if floor_ms is None:
                transaction = write_in_transaction(self.options, counted, *where)
            else:
                risen = Risen(counted, floor_ms)
                transaction = write_in_transaction(self.options, risen, *where)
                transaction = transaction and transaction._replace(newest_ms=risen.newest_ms)
        else:
            # What comes before the sink in the plan, such as state, is kept only if all rows are asked for.
            for _ in counted:
                pass
        if plan.row_count not in (None, counted.row_count):
            if transaction is not None:
                SinkTransactions(self.options).abort([transaction])
            raise two_phase.changed_batch(
                task.batch_id,
                f"{plan.row_count} rows in Spark partition {task.spark_partition}",
                str(counted.row_count),
            )
        return TaskMessage(task.spark_partition, task.query_id, repeat, transaction, task.run_id)

    def commit(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Decide the batch, and make its rows visible."""
        ours = [one for one in messages if isinstance(one, TaskMessage)]
        two_phase.commit(_ledger(self.options), SinkTransactions(self.options), batch_id, ours)

    def abort(self, messages: Sequence[WriterCommitMessage | None], batch_id: int) -> None:
        """Give up what is not decided."""
        ledger = _ledger(self.options)
        ours = [one if isinstance(one, TaskMessage) else None for one in messages]
        two_phase.abort(ledger, SinkTransactions(self.options), ledger.query_id() or "", batch_id, ours)

    def running_batch(self) -> int:
        """The batch that is under way, which Spark has planned before it asked for anything to be written."""
        batch_id = _ledger(self.options).checkpoint.newest_planned()
        if batch_id is None:
            raise ClientError(
                f"Spark has planned no batch at {self.options.checkpoint}",
                "Inside foreachBatch, give checkpointLocation of the stream itself; outside of one, leave it out.",
            )
        return batch_id


class _Counted:
    """Batches, and how many rows have gone by."""

    def __init__(self, batches: Iterable[pyarrow.RecordBatch]) -> None:
        self._batches = batches
        self.row_count = 0

    def __iter__(self) -> Iterator[pyarrow.RecordBatch]:
        for batch in self._batches:
            self.row_count += batch.num_rows
            yield batch


def first_partition(task: TaskFacts) -> int:
    """Where rows without a key begin: another partition each time, or small batches would all go to the first."""
    return task.spark_partition + max(task.batch_id, 0)


def _ledger(options: SinkOptions) -> Ledger:
    if options.checkpoint is None:
        raise SettingsError(
            "deliveryGuarantee=exactlyOnce needs to know where the query's checkpoint is",
            'Add .option("checkpointLocation", "…") to writeStream (spark.sql.streaming.checkpointLocation does not '
            "reach the sink), or set deliveryGuarantee=atLeastOnce.",
        )
    return Ledger.at(options.checkpoint, options.sink_name)
