"""End the transactions of the sink's tasks on the driver; find and abort abandoned ones."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from kio.schema.errors import ErrorCode

from catchment.client.errors import ClientError
from catchment.client.transaction_outcomes import Outcome, ongoing_transactions, outcome_of
from catchment.client.transactions import Transactions, end_transactions
from catchment.spark.sink.commit_list import Transaction
from catchment.spark.sink.options import SinkOptions
from catchment.spark.sink.two_phase import Spared
from catchment.spark.task_facts import TaskFacts

_logger = logging.getLogger(__name__)
_TASKS_END_S: Final = 3.0
"""A task that Spark kills may write for `spark.python.task.killTimeout`, two seconds, before its process ends."""
_BETWEEN_SWEEPS_S: Final = 0.25


def transactional_id(options: SinkOptions, job: str, task: TaskFacts) -> str:
    """A task's id. Batches of a stream use the same ones again, so there are never more than the widest batch needs.

    Two sets take turns: brokers are still at work on the end of a transaction when it counts as committed, and an id that is
    used again meanwhile has to wait for them.
    """
    return f"{_prefix(options, job)}{max(task.batch_id, 0) % 2}-{task.spark_partition}-{task.attempt}"


class SinkTransactions:
    """Ends transactions that tasks have begun, by their handles."""

    def __init__(self, options: SinkOptions) -> None:
        self._options = options

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        cluster = self._options.connection.cluster()
        codes = end_transactions(cluster, [one.handle for one in transactions], commit=True)
        # Any error may mean that it was committed before, by a driver that is gone, or aborted: the log knows.
        return [
            Outcome.COMMITTED if code is ErrorCode.none else outcome_of(cluster, one.witness)
            for one, code in zip(transactions, codes, strict=True)
        ]

    def abort(self, transactions: Sequence[Transaction]) -> None:
        # Rows that were not decided may be dropped; their transactions end with their time-out at the latest.
        with suppress(ClientError):
            end_transactions(self._options.connection.cluster(), [one.handle for one in transactions], commit=False)

    def sweep(self, query_id: str, spared: Spared = tuple, *, while_tasks_end: bool = False) -> None:
        """Abort what is still open of this query: attempts that failed, or lost a race. Readers would wait for them."""
        until_s = time.monotonic() + (_TASKS_END_S if while_tasks_end else 0)
        while self._sweep(query_id, spared) and time.monotonic() < until_s:
            time.sleep(_BETWEEN_SWEEPS_S)

    def _sweep(self, query_id: str, spared: Spared) -> bool:
        """One look; False if the brokers cannot be asked."""
        cluster = self._options.connection.cluster()
        try:
            strays = ongoing_transactions(cluster, _prefix(self._options, query_id))
            for stray in set(strays).difference(spared() if strays else ()):
                Transactions(cluster, stray, self._options.transaction_timeout_ms).init_producer_id()
        except ClientError as error:
            _logger.warning("transactions of abandoned tasks stay open until their time-out: %s", error)
            return False
        return True


def _prefix(options: SinkOptions, job: str) -> str:
    # The name stands first: what begins with the id of a query alone must not find those of its named sinks.
    name = f"{options.sink_name}-" if options.sink_name else ""
    return f"{options.transactional_id_prefix}-{name}{job}-"
