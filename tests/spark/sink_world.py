"""A broker, a checkpoint and drivers in memory, each driver stopped at every contact with the other two.

So a test can let several drivers run in any order, kill them between any two steps, let transactions time out and let
abandoned tasks wake up, and then compare what is visible with what should be.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import count
from threading import Semaphore, Thread

from catchment.client.errors import ClientError
from catchment.client.transaction_outcomes import Outcome, Witness
from catchment.client.transactions import TransactionHandle
from catchment.spark.sink import two_phase
from catchment.spark.sink.commit_list import CommitList, TaskMessage, Transaction

QUERY = "query"
ROWS_PER_BATCH = 3
_WAIT_S = 150.0

Row = tuple[int, int]
"""A batch, and the number of the row in it."""


class Killed(BaseException):
    """The end of a driver whose process was killed: nothing that it would have done is done."""


@dataclass
class Written:
    """What one transaction has written."""

    rows: list[Row] = field(default_factory=list)
    outcome: Outcome | None = None
    """None while it is open."""


class World:
    """The broker's transactions and the checkpoint's files."""

    def __init__(self) -> None:
        self.epochs: dict[str, int] = {}
        self.written: dict[TransactionHandle, Written] = {}
        self.offsets = count()
        self.witnesses: dict[int, TransactionHandle] = {}
        self.lists: dict[tuple[int, int], CommitList] = {}
        self.finished: set[int] = set()
        """The batches of which Spark has noted the end."""
        self.can_be_swept = True

    def take_over(self, transactional_id: str) -> TransactionHandle:
        """InitProducerId: whatever is open under the id is aborted."""
        self.time_out(transactional_id)
        epoch = self.epochs[transactional_id] = self.epochs.get(transactional_id, -1) + 1
        handle = TransactionHandle(transactional_id, 1, epoch)
        self.written[handle] = Written()
        return handle

    def time_out(self, transactional_id: str) -> None:
        for handle, written in self.written.items():
            if handle.transactional_id == transactional_id and written.outcome is None:
                written.outcome = Outcome.ABORTED
                self.epochs[transactional_id] += 1

    def end(self, handle: TransactionHandle, wanted: Outcome) -> bool:
        """EndTxn: whether the transaction ended in that way. A fenced producer learns nothing more than that it is fenced."""
        written = self.written[handle]
        if written.outcome is None:
            written.outcome = wanted
        return self.epochs[handle.transactional_id] == handle.epoch and written.outcome is wanted

    def open_ids(self) -> list[str]:
        return sorted({handle.transactional_id for handle, written in self.written.items() if written.outcome is None})

    def visible(self) -> Counter[Row]:
        return Counter(
            row for written in self.written.values() if written.outcome is Outcome.COMMITTED for row in written.rows
        )


class Driver:
    """One run of the query, in a thread that advances only on request."""

    def __init__(self, world: World, partition_count: int, attempts: Sequence[int], batch_count: int) -> None:
        """`attempts` says for one task after the other how Spark runs it; see `_run_task`."""
        self.world = world
        self.error: BaseException | None = None
        self.is_over = False
        self._partition_count = partition_count
        self._attempts = list(attempts)
        self._batch_count = batch_count
        self._is_killed = False
        self._turn, self._back = Semaphore(0), Semaphore(0)
        self._thread = Thread(target=self._live, daemon=True)
        self._thread.start()

    def advance(self, steps: int = 1) -> None:
        for _ in range(steps):
            if not self.is_over:
                self._turn.release()
                assert self._back.acquire(timeout=_WAIT_S), "the driver does not come back"

    def finish(self) -> None:
        while not self.is_over:
            self.advance()

    def kill(self) -> None:
        self._is_killed = True
        self.finish()

    def pause(self) -> None:
        """The world may change here, and the driver may end here."""
        self._back.release()
        self._turn.acquire()
        if self._is_killed:
            raise Killed

    def _live(self) -> None:
        self._turn.acquire()
        try:
            for batch_id in range(max(self.world.finished, default=-1) + 1, self._batch_count):
                self._run_batch(batch_id)
        except BaseException as error:
            self.error = error
        self.is_over = True
        self._back.release()

    def _run_batch(self, batch_id: int) -> None:
        lists, transactions = SteppedLists(self), SteppedTransactions(self)
        unfinished = two_phase.recover(lists, transactions)
        messages = [self._run_task(unfinished, batch_id, number) for number in range(self._partition_count)]
        # Spark makes another writer for the commit, which recovers as well.
        two_phase.recover(lists, transactions)
        try:
            two_phase.commit(lists, transactions, batch_id, messages)
        except ClientError:
            two_phase.abort(lists, transactions, QUERY, batch_id, messages)
            raise
        self.pause()
        if batch_id in self.world.finished:
            raise ClientError("Spark has found another run of the query with this checkpoint")
        self.world.finished.add(batch_id)

    def _run_task(self, unfinished: two_phase.Unfinished | None, batch_id: int, number: int) -> TaskMessage:
        """0: once; 1: fails and is repeated; 2 and 3: two attempts, of which the second or the first counts."""
        kind = self._attempts.pop() if self._attempts else 0
        messages = [self._run_attempt(unfinished, batch_id, number, attempt) for attempt in range(2 if kind else 1)]
        return messages[0] if kind == 3 else messages[-1]

    def _run_attempt(
        self, unfinished: two_phase.Unfinished | None, batch_id: int, number: int, attempt: int
    ) -> TaskMessage:
        rows = [(batch_id, row) for row in range(ROWS_PER_BATCH) if row % self._partition_count == number]
        plan = two_phase.plan_task(unfinished, QUERY, batch_id, number)
        transaction = None
        if plan.row_count not in (None, len(rows)):
            raise two_phase.changed_batch(batch_id, str(plan.row_count), str(len(rows)))
        if plan.does_write and rows:
            self.pause()
            handle = self.world.take_over(f"{number}-{attempt}")
            self.pause()
            if self.world.written[handle].outcome is not None:
                raise ClientError("the transaction was taken over")
            self.world.written[handle].rows += rows
            witness = next(self.world.offsets)
            self.world.witnesses[witness] = handle
            transaction = Transaction(handle, number, len(rows), Witness("topic", "id", 0, witness))
        return TaskMessage(number, QUERY, plan.repeat, transaction)


class SteppedLists:
    """The checkpoint as a driver sees it."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._world = driver.world

    def newest(self) -> list[CommitList]:
        self._driver.pause()
        newest = max((batch_id for batch_id, _ in self._world.lists), default=-1)
        return [one for (batch_id, _), one in sorted(self._world.lists.items()) if batch_id == newest]

    def of(self, batch_id: int) -> list[CommitList]:
        self._driver.pause()
        return [one for (batch, _), one in sorted(self._world.lists.items()) if batch == batch_id]

    def is_finished(self, batch_id: int) -> bool:
        self._driver.pause()
        return any(finished >= batch_id for finished in self._world.finished)

    def add(self, decided: CommitList) -> None:
        self._driver.pause()
        if (decided.batch_id, decided.number) in self._world.lists:
            raise two_phase.AlreadyDecided
        # What is stored must be enough by itself.
        self._world.lists[decided.batch_id, decided.number] = CommitList.from_json(decided.to_json(), "list")

    def remove(self, decided: CommitList) -> None:
        self._driver.pause()
        self._world.lists.pop((decided.batch_id, decided.number), None)

    def forget_before(self, batch_id: int) -> None:
        for key in [key for key in self._world.lists if key[0] < batch_id]:
            self._driver.pause()
            with suppress(KeyError):
                del self._world.lists[key]


class SteppedTransactions:
    """The broker as a driver sees it."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._world = driver.world

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        outcomes = []
        for one in transactions:
            self._driver.pause()
            if self._world.end(one.handle, Outcome.COMMITTED):
                outcomes.append(Outcome.COMMITTED)
                continue
            self._driver.pause()
            witness = self._world.witnesses.get(one.witness.offset)
            outcome = Outcome.UNKNOWN if witness is None else self._world.written[witness].outcome
            assert outcome is not None, "a transaction that cannot be ended is over"
            outcomes.append(outcome)
        return outcomes

    def abort(self, transactions: Sequence[Transaction]) -> None:
        for one in transactions:
            self._driver.pause()
            self._world.end(one.handle, Outcome.ABORTED)

    def sweep(self, query_id: str, spared: two_phase.Spared, *, while_tasks_end: bool = False) -> None:
        """Slow: what it has found may have changed until it acts on it."""
        self._driver.pause()
        strays = self._world.open_ids() if self._world.can_be_swept else []
        kept = spared() if strays else ()
        for stray in strays:
            self._driver.pause()
            if stray not in kept:
                self._world.take_over(stray)


def drive(start: Callable[[], Driver], runs: int) -> ClientError | None:
    """Start the query again and again until a run ends well; None, or what the last of them said."""
    error: BaseException | None = None
    for _ in range(runs):
        driver = start()
        driver.finish()
        error = driver.error
        if error is None:
            return None
    assert isinstance(error, ClientError), error
    return error
