"""The two phases under everything that can happen between two steps: each row of each finished batch is visible once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import hypothesis.strategies as st
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.spark.sink_world import QUERY, ROWS_PER_BATCH, Driver, World, drive

from catchment.client.errors import ClientError
from catchment.client.transaction_outcomes import Outcome, Witness
from catchment.client.transactions import TransactionHandle
from catchment.spark.checkpoint.files import LocalFiles
from catchment.spark.sink import two_phase
from catchment.spark.sink.commit_list import CommitList, Repeat, TaskMessage, Transaction
from catchment.spark.sink.ledger import Ledger

BATCHES = 3
RUNS = 4
"""The query is started so often at most, until it is done: once for what others have left behind, and again for that."""


class TwoPhases(RuleBasedStateMachine):
    """Drivers that share a checkpoint, against a broker that forgets."""

    def __init__(self) -> None:
        super().__init__()
        self.world = World()
        self.drivers: list[Driver] = []
        self.is_evidence_lost = False

    @precondition(lambda self: len(self.drivers) < 3)
    @rule(partition_count=st.sampled_from([2, 2, 2, 1, 3]), attempts=st.lists(st.integers(0, 3), max_size=6))
    def start(self, partition_count: int, attempts: list[int]) -> None:
        self.drivers.append(Driver(self.world, partition_count, attempts, BATCHES))

    @precondition(lambda self: self.drivers)
    @rule(choice=st.integers(0, 2), steps=st.one_of(st.integers(1, 5), st.integers(1, 50)))
    def advance(self, choice: int, steps: int) -> None:
        driver = self.drivers[choice % len(self.drivers)]
        driver.advance(steps)
        if driver.is_over:
            assert driver.error is None or isinstance(driver.error, ClientError), driver.error
            self.drivers.remove(driver)

    @precondition(lambda self: self.drivers)
    @rule(choice=st.integers(0, 2))
    def kill(self, choice: int) -> None:
        self.drivers.pop(choice % len(self.drivers)).kill()

    @precondition(lambda self: len(self.drivers) < 3)
    @rule(ends=st.integers(0, 6))
    def a_driver_dies_behind_a_decision_and_what_it_left_times_out(self, ends: int) -> None:
        driver = Driver(self.world, 2, [], BATCHES)
        lists = set(self.world.lists)
        while not driver.is_over and self.world.lists.keys() <= lists:
            driver.advance()
        driver.advance(ends)
        driver.kill()
        for transactional_id in self.world.open_ids():
            self.world.time_out(transactional_id)

    @rule(can_be_swept=st.booleans())
    def sweeping_works_or_fails(self, can_be_swept: bool) -> None:
        self.world.can_be_swept = can_be_swept

    @precondition(lambda self: self.world.open_ids())
    @rule(choice=st.integers(0, 5))
    def time_out(self, choice: int) -> None:
        open_ids = self.world.open_ids()
        self.world.time_out(open_ids[choice % len(open_ids)])

    @rule(number=st.integers(0, 2), attempt=st.integers(0, 1))
    def an_abandoned_task_wakes_up(self, number: int, attempt: int) -> None:
        handle = self.world.take_over(f"{number}-{attempt}")
        self.world.written[handle].rows.append((0, number))

    @precondition(lambda self: self.world.witnesses)
    @rule(choice=st.integers(0, 20))
    def retention_removes_a_witness(self, choice: int) -> None:
        offsets = [
            offset for offset, handle in self.world.witnesses.items() if self.world.written[handle].outcome is not None
        ]
        if offsets:
            del self.world.witnesses[offsets[choice % len(offsets)]]
            self.is_evidence_lost = True

    @invariant()
    def no_row_is_visible_twice(self) -> None:
        assert max(self.world.visible().values(), default=1) == 1

    @invariant()
    def no_row_of_a_finished_batch_is_lost(self) -> None:
        expected = Counter((batch_id, row) for batch_id in self.world.finished for row in range(ROWS_PER_BATCH))
        assert not expected - self.world.visible()

    def teardown(self) -> None:
        for driver in self.drivers:
            driver.kill()
        error = drive(lambda: Driver(self.world, 2, [], BATCHES), RUNS)
        if error is None:
            assert self.world.visible() == Counter(
                (batch, row) for batch in range(BATCHES) for row in range(ROWS_PER_BATCH)
            )
        else:
            # Only what cannot be expected, or can no longer be repeated as it was, may be left to people.
            assert "now that the rest is to be repeated" in str(error) or self.is_evidence_lost, error
        self.no_row_is_visible_twice()
        self.no_row_of_a_finished_batch_is_lost()


def test_of_a_batch_that_was_lost_as_a_whole_only_the_repetition_counts() -> None:
    world = World()
    lost = Driver(world, 3, [], 1)
    while not world.lists:
        lost.advance()
    lost.kill()
    for transactional_id in world.open_ids():
        world.time_out(transactional_id)
    repeated = Driver(world, 1, [], 1)
    while len(world.lists) == 1 or world.open_ids():
        repeated.advance()
    repeated.kill()
    assert not world.finished
    last = Driver(world, 2, [], 1)
    last.finish()
    assert last.error is None
    assert world.visible() == Counter((0, row) for row in range(ROWS_PER_BATCH))


class Spy:
    """Transactions that are always committed; remembers which ids a sweep has spared."""

    def __init__(self) -> None:
        self.spared: set[str] = set()

    def commit(self, transactions: Sequence[Transaction]) -> list[Outcome]:
        return [Outcome.COMMITTED for _ in transactions]

    def abort(self, transactions: Sequence[Transaction]) -> None:
        pass

    def sweep(self, query_id: str, spared: two_phase.Spared, *, while_tasks_end: bool = False) -> None:
        self.spared = set(spared())


def written(transactional_id: str) -> Transaction:
    return Transaction(TransactionHandle(transactional_id, 1, 0), 0, 1, Witness("topic", "id", 0, 0))


def test_a_driver_that_is_behind_spares_what_another_has_decided_since(tmp_path: Path) -> None:
    ledger = Ledger(LocalFiles(tmp_path))
    ledger.add(CommitList(1, 0, QUERY, 1, (written("theirs"),)))
    ours = TaskMessage(0, QUERY, Repeat(), written("ours"))
    nothing = TaskMessage(0, QUERY, Repeat(1), None)
    transactions = Spy()
    two_phase.abort(ledger, transactions, QUERY, 0, [ours])
    assert transactions.spared == {"theirs"}
    two_phase.commit(ledger, transactions, 0, [nothing])
    assert transactions.spared == {"theirs"}
    two_phase.commit(ledger, transactions, 2, [ours])
    assert transactions.spared == set(), "what is open under an id of its own is that of an attempt that does not count"


TestTwoPhases = TwoPhases.TestCase
TestTwoPhases.settings = settings(max_examples=150, stateful_step_count=40)
