"""The two-phase commit of the sink, without I/O: commit lists and transactions are reached through two protocols.

Phase one: every task writes its rows in a transaction of its own. Phase two, on the driver: the list of these transactions is
stored, which decides the batch; then they are committed. After a crash before the decision the batch is repeated. After a crash
that follows it, the list is finished first, and the repeated batch writes only those Spark partitions whose transactions were lost, for
example by a time-out. Lost transactions are found in the log, never guessed from an error.

Two drivers with one checkpoint cannot both decide a batch: a driver writes only the list after those that existed when its tasks
began, and a list can be created only once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from catchment.client.errors import ClientError
from catchment.client.transaction_outcomes import Outcome
from catchment.client.transactions import TransactionHandle
from catchment.spark.sink.commit_list import CommitList, Repeat, TaskMessage, Transaction


class AlreadyDecided(Exception):
    """A list that is there already."""


class Lists(Protocol):
    """Where the lists are kept."""

    def newest(self) -> list[CommitList]:
        """All lists of the newest batch that has one, in order."""

    def of(self, batch_id: int) -> list[CommitList]:
        """All lists of a batch, in order."""

    def is_finished(self, batch_id: int) -> bool:
        """Whether Spark has noted that a batch is done."""

    def add(self, decided: CommitList) -> None:
        """Store a list for good; AlreadyDecided if there is one of its number, or another run is seen to decide."""

    def remove(self, decided: CommitList) -> None:
        """Remove a list that was added in error."""

    def forget_before(self, batch_id: int) -> None:
        """Remove the lists of earlier batches."""


Spared = Callable[[], Collection[str]]
"""Transactional ids, looked up when they are needed."""


class Transactions(Protocol):
    """The means to end transactions."""

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        """Commit all, and return the outcome of each."""

    def abort(self, transactions: Sequence[Transaction]) -> None:
        """Abort those that can be aborted; the others end with their time-out."""

    def sweep(self, query_id: str, spared: Spared, *, while_tasks_end: bool = False) -> None:
        """Abort what other attempts at the query's batches have left open, but for transactions of the ids to be spared.

        Those are asked for once it is known what is open: what was decided before then is among them. Tasks that Spark is
        about to kill may still begin transactions; they can be waited for.
        """


@dataclass(frozen=True)
class Unfinished:
    """A batch that was decided and that Spark does not know to be done: what of it is visible for good."""

    batch_id: int
    query_id: str
    list_count: int
    partition_count: int
    row_counts: dict[int, int]
    """How many rows each Spark partition had; those without rows are left out."""
    settled: frozenset[int]
    """The Spark partitions whose rows are committed."""
    run_id: str = ""
    """Which run of the query has decided last."""

    @property
    def is_settled(self) -> bool:
        return self.settled == self.row_counts.keys()


class TaskPlan(NamedTuple):
    """What one task is to do with its rows."""

    repeat: Repeat
    does_write: bool
    row_count: int | None
    """How many rows there must be; None if it makes no difference."""


def recover(lists: Lists, transactions: Transactions) -> Unfinished | None:
    """Finish what was decided and not finished. None in the normal case: everything decided is done."""
    found = lists.newest()
    if not found or lists.is_finished(found[-1].batch_id):
        return None
    settled: set[int] = set()
    row_counts: dict[int, int] = {}
    for one in found:
        if not settled:
            # Where all of a list was lost, the next one is of the whole batch, whose rows may lie in other Spark partitions.
            row_counts.clear()
        for transaction, outcome in zip(one.transactions, transactions.commit(one.transactions), strict=True):
            _raise_unknown(one.batch_id, transaction, outcome)
            row_counts[transaction.spark_partition] = transaction.row_count
            if outcome is Outcome.COMMITTED:
                settled.add(transaction.spark_partition)
    last = found[-1]
    return Unfinished(
        last.batch_id, last.query_id, len(found), last.partition_count, row_counts, frozenset(settled), last.run_id
    )


def plan_task(
    unfinished: Unfinished | None, query_id: str, batch_id: int, spark_partition: int, run_id: str = ""
) -> TaskPlan:
    """What a task does, given what was found unfinished before its batch began."""
    is_next = unfinished is not None and unfinished.query_id == query_id and unfinished.batch_id < batch_id
    if unfinished is None or (is_next and unfinished.is_settled):
        return TaskPlan(Repeat(), does_write=True, row_count=None)
    if is_next:
        raise ClientError(
            f"rows of batch {unfinished.batch_id} were decided and then lost, and Spark has gone on to batch {batch_id}",
            "Parts of the checkpoint were deleted: restore it, or begin with a new checkpoint.",
        )
    if unfinished.query_id != query_id or unfinished.batch_id > batch_id:
        raise ClientError(
            f"the checkpoint holds what query {unfinished.query_id} decided for batch {unfinished.batch_id}, but this is "
            f"batch {batch_id} of query {query_id}",
            "Parts of the checkpoint were deleted or come from another one: restore it, or begin with a new checkpoint.",
        )
    if run_id and unfinished.run_id == run_id:
        # Spark itself repeats a batch in another run only. To take a second write for a repeat would lose its rows.
        raise ClientError(
            f"batch {batch_id} has been written already in this run of the query",
            "Where a batch is written more than once in foreachBatch, give each write a sinkName of its own.",
        )
    if unfinished.is_settled:
        return TaskPlan(Repeat(unfinished.list_count), does_write=False, row_count=None)
    if not unfinished.settled:
        return TaskPlan(Repeat(unfinished.list_count), does_write=True, row_count=None)
    return TaskPlan(
        Repeat(unfinished.list_count, unfinished.partition_count),
        spark_partition not in unfinished.settled,
        unfinished.row_counts.get(spark_partition, 0),
    )


def commit(lists: Lists, transactions: Transactions, batch_id: int, messages: Sequence[TaskMessage]) -> None:
    """Decide a batch, and commit what its tasks have written."""
    written = tuple(message.transaction for message in messages if message.transaction is not None)
    if messages and messages[0].repeat.partition_count not in (None, len(messages)):
        transactions.abort(written)
        raise changed_batch(batch_id, f"{messages[0].repeat.partition_count} Spark partitions", f"{len(messages)}")
    if written:
        _decide(lists, transactions, batch_id, messages, written)
        outcomes = transactions.commit(written)
        for transaction, outcome in zip(written, outcomes, strict=True):
            _raise_unknown(batch_id, transaction, outcome)
        lost = [
            one.spark_partition for one, outcome in zip(written, outcomes, strict=True) if outcome is Outcome.ABORTED
        ]
        if lost:
            raise ClientError(
                f"batch {batch_id}: the transactions of Spark partitions {lost} were aborted before they could be committed",
                "Start the query again: it writes these rows again, and no others. Either the batch took longer than the "
                "transaction time-out (raise kafka.transaction.timeout.ms), or another run of the query has the same "
                "checkpoint (stop one of them).",
            )
    lists.forget_before(batch_id)
    ours = {one.handle for one in written}
    for query_id in {message.query_id for message in messages}:
        transactions.sweep(query_id, lambda: _ids(_newest_handles(lists) - ours))


def abort(
    lists: Lists, transactions: Transactions, query_id: str, batch_id: int, messages: Sequence[TaskMessage | None]
) -> None:
    """Give up a batch that failed. What is decided stays so, for Spark asks for this after a commit that failed as well."""
    decided = {one.handle for found in lists.of(batch_id) for one in found.transactions}
    written = [message.transaction for message in messages if message is not None and message.transaction is not None]
    transactions.abort([one for one in written if one.handle not in decided])
    # Killed tasks could not abort their transactions, and the query may not be restarted for a while.
    transactions.sweep(query_id, lambda: _ids(_newest_handles(lists) | decided), while_tasks_end=None in messages)


def _newest_handles(lists: Lists) -> set[TransactionHandle]:
    """What was decided last, perhaps by another driver that is batches ahead."""
    return {one.handle for found in lists.newest() for one in found.transactions}


def _ids(handles: Iterable[TransactionHandle]) -> set[str]:
    return {handle.transactional_id for handle in handles}


def _decide(
    lists: Lists,
    transactions: Transactions,
    batch_id: int,
    messages: Sequence[TaskMessage],
    written: tuple[Transaction, ...],
) -> None:
    first = messages[0]
    repeat = first.repeat
    decided = CommitList(
        batch_id, repeat.list_count, first.query_id, len(messages), written, first.run_id, repeat.floor_ms
    )
    try:
        lists.add(decided)
    except AlreadyDecided as cause:
        transactions.abort(written)
        raise _decided_elsewhere(batch_id) from cause
    if lists.is_finished(batch_id):
        # Another driver was so much faster that it has removed its own list for this batch already.
        transactions.abort(written)
        lists.remove(decided)
        raise _decided_elsewhere(batch_id)


def _decided_elsewhere(batch_id: int) -> ClientError:
    return ClientError(
        f"batch {batch_id} was decided by another run of this query while this one was at work on it",
        "Two runs share one checkpoint: stop one of them, and start the other again.",
    )


def changed_batch(batch_id: int, before: str, now: str) -> ClientError:
    """A repeated batch that is not what it was, though a part of what it was is visible already."""
    return ClientError(
        f"batch {batch_id} had {before} when a part of it was committed, and has {now} now that the rest is to be repeated",
        "Start the query with the settings that it had then (spark.sql.shuffle.partitions, minPartitions, the query "
        "itself); a query whose rows differ from run to run needs deliveryGuarantee=atLeastOnce.",
    )


def _raise_unknown(batch_id: int, transaction: Transaction, outcome: Outcome) -> None:
    if outcome is Outcome.UNKNOWN:
        witness = transaction.witness
        raise ClientError(
            f"batch {batch_id}: whether the rows of Spark partition {transaction.spark_partition} were committed "
            f"is no longer known, because the topic no longer holds offset {witness.offset} of partition {witness.partition} of "
            f"{witness.topic}",
            "Delete the batch's files under sinks/catchment in the checkpoint to write its rows (again), or begin with a "
            "new checkpoint.",
        )
