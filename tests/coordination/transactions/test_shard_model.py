"""Random producers, late requests, lost tails and replays against a small model.

The model is the log itself, read by rules that are simpler than the shard's: the allowed transitions, and the owner of the
transactional id at each point. A prepared transaction keeps its decision, a replaced producer changes nothing, and acknowledged
records stay in the log. Without further input every prepared transaction becomes complete, with the same marker for all its
partitions.
"""

from __future__ import annotations

import functools
import itertools
from typing import NamedTuple

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kio.schema.errors import ErrorCode
from tests.coordination.transactions.transaction_log import TIMEOUT_MS, V1, V2, LoggedTransactions

from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.transactions.commands import LAST_EPOCH, ProducerResponse, TransactionLimits
from catchment.coordination.transactions.records import (
    TopicPartition,
    Transaction,
    TransactionState,
    decode_key,
    decode_transaction,
)

IDS = ("a", "b")
PARTITIONS = (("t", 0), ("t", 1), ("u", 0))

identifiers = st.sampled_from(IDS)
picks = st.integers(0, 4)
versions = st.sampled_from((V1, V2))

NEXT_STATES = {
    TransactionState.EMPTY: {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT},
    TransactionState.ONGOING: {
        TransactionState.ONGOING,
        TransactionState.PREPARE_COMMIT,
        TransactionState.PREPARE_ABORT,
    },
    TransactionState.PREPARE_COMMIT: {TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT},
    TransactionState.PREPARE_ABORT: {TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT},
}
COMMITTED = (TransactionState.PREPARE_COMMIT, TransactionState.COMPLETE_COMMIT)
ABORTED = (TransactionState.PREPARE_ABORT, TransactionState.COMPLETE_ABORT)
# Every invariant reads the whole log, and most of it is unchanged since the last step.
_decoded = functools.cache(decode_transaction)
_IDLE = {TransactionState.EMPTY, TransactionState.ONGOING, TransactionState.PREPARE_ABORT}


class Instance(NamedTuple):
    """One producer instance: it registered the transactional id. Its responses since are kept."""

    number: int
    producer: Producer


class Asked(NamedTuple):
    """A request that changes something, its producer, and the owner of the transactional id at that time."""

    transactional_id: str
    instance: Instance
    owner_number: int
    answers: list[ErrorCode] | list[ProducerResponse]

    @property
    def is_done(self) -> bool:
        return any(getattr(answer, "error", answer) is ErrorCode.none for answer in self.answers)


class TransactionMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.shard = LoggedTransactions(TransactionLimits(expiration_ms=10 * TIMEOUT_MS))
        self.instances: dict[str, list[Instance]] = {name: [Instance(0, Producer(7, 0))] for name in IDS}
        self.inits: list[tuple[str, int, list[ProducerResponse]]] = []
        self.asked: list[Asked] = []
        self.ends: list[tuple[Asked, bool]] = []
        self.adds: list[tuple[Asked, TopicPartition]] = []
        self.next_number = 1
        for name in IDS:
            self.new_instance(name)

    def learn(self) -> None:
        """Register the instances that the responses so far have created."""
        for name, number, answers in self.inits:
            for answer in answers:
                self.know(name, number, answer)
        for asked, _ in self.ends:
            for response in asked.answers:
                if isinstance(response, ProducerResponse):
                    self.know(asked.transactional_id, asked.instance.number, response)

    def know(self, name: str, number: int, answer: ProducerResponse) -> None:
        instance = Instance(number, answer.producer)
        if answer.error is ErrorCode.none and instance not in self.instances[name]:
            self.instances[name].append(instance)

    def pick(self, name: str, pick: int) -> Instance:
        self.learn()
        known = self.instances[name]
        return known[-1 - pick % len(known)]

    def owner(self, name: str) -> int:
        self.learn()
        return max(instance.number for instance in self.instances[name])

    @rule(name=identifiers)
    def new_instance(self, name: str) -> None:
        self.inits.append((name, self.next_number, self.shard.init(name)))
        self.next_number += 1

    @rule(name=identifiers, pick=picks)
    def go_on_after_an_error(self, name: str, pick: int) -> None:
        instance = self.pick(name, pick)
        owner = self.owner(name)
        is_forgotten = name not in self.shard.shard.state.logged
        answers = self.shard.init(name, instance.producer)
        if is_forgotten:
            # After the id has expired, all instances start from scratch, and the first one owns it.
            self.inits.append((name, self.next_number, answers))
            self.next_number += 1
            return
        self.asked.append(Asked(name, instance, owner, answers))
        self.inits.append((name, instance.number, answers))

    @rule(name=identifiers, pick=picks, partition=st.sampled_from(PARTITIONS), version=versions)
    def add(self, name: str, pick: int, partition: TopicPartition, version: int) -> None:
        instance = self.pick(name, pick)
        owner = self.owner(name)
        answers = self.shard.add(instance.producer, partition, transactional_id=name, version=version)
        self.adds.append((Asked(name, instance, owner, answers), partition))

    @rule(name=identifiers, pick=picks, is_commit=st.booleans(), version=versions)
    def end(self, name: str, pick: int, is_commit: bool, version: int) -> None:
        instance = self.pick(name, pick)
        owner = self.owner(name)
        answers = self.shard.end(instance.producer, name, is_commit=is_commit, version=version)
        self.ends.append((Asked(name, instance, owner, answers), is_commit))

    @rule(name=identifiers, is_commit=st.booleans(), version=versions, steps=st.integers(1, 4))
    def transact(self, name: str, is_commit: bool, version: int, steps: int) -> None:
        """Run a correct producer, or its first steps, so that there is something to disturb."""
        self.add(name, 0, PARTITIONS[0], version)
        self.add(name, 0, PARTITIONS[1], version)
        if steps > 1:
            self.end(name, 0, is_commit, version)
        if steps > 2:
            self.shard.deliver_all()
        if steps > 3:
            self.end(name, 1 if version == V2 else 0, is_commit, version)

    @rule(name=identifiers)
    def grow_old(self, name: str) -> None:
        """Reach the last epoch in one step, which takes months otherwise."""
        known = self.shard.shard.state.logged.get(name)
        if known is not None and known.state is TransactionState.EMPTY and known.producer_epoch < LAST_EPOCH:
            self.learn()
            current = Producer(known.producer_id, known.producer_epoch)
            holders = [instance for instance in self.instances[name] if instance.producer == current]
            aged = self.shard.age(name, LAST_EPOCH)
            self.instances[name] += [Instance(holder.number, aged) for holder in holders]

    @precondition(lambda self: self.shard.markers)
    @rule(pick=picks, again=st.booleans())
    def deliver_markers(self, pick: int, again: bool) -> None:
        markers = self.shard.markers[pick % len(self.shard.markers)]
        if not again:
            self.shard.markers.remove(markers)
        self.shard.deliver(markers)

    @rule(
        trouble=st.sampled_from(
            ("hold commits", "hold commits", "let go", "let go", "fail", "wait", "time out", "expire", "crash", "crash")
        ),
        lost=st.integers(0, 5),
    )
    def disturb(self, trouble: str, lost: int) -> None:
        """One rule for all failures, so that most steps are regular requests."""
        shard = self.shard
        match trouble:
            case "hold commits":
                shard.holds_commits = True
            case "let go":
                shard.holds_commits = False
                shard.commit_all()
            case "fail":
                shard.fail_all(ErrorCode.coordinator_not_available)
            case "wait":
                shard.advance(1000)
            case "time out":
                shard.advance(TIMEOUT_MS + 1)
                shard.abort_timed_out()
            case "expire":
                shard.advance(11 * TIMEOUT_MS)
                shard.call(lambda transactions, now: transactions.queries.expire(now))
            case "crash":
                # A part of the uncommitted records is lost.
                shard.crash(max(shard.safe_count, len(shard.log) - lost))

    def histories(self) -> dict[str, list[Transaction | None]]:
        found: dict[str, list[Transaction | None]] = {name: [] for name in IDS}
        for key, value in self.shard.log:
            name = decode_key(key)
            assert name is not None
            found[name].append(None if value is None else _decoded(value))
        return found

    @invariant()
    def logged_state_is_what_the_log_says(self) -> None:
        last = {name: history[-1] for name, history in self.histories().items() if history}
        assert self.shard.shard.state.logged == {name: one for name, one in last.items() if one is not None}
        ongoing = {name for name, one in last.items() if one is not None and one.state is TransactionState.ONGOING}
        assert set(self.shard.shard.state.ongoing) == ongoing

    @invariant()
    def every_transaction_has_one_outcome(self) -> None:
        for history in self.histories().values():
            for before, after in itertools.pairwise(history):
                if before is None or after is None:
                    assert after is None or after.state is TransactionState.EMPTY
                    assert before is None or not before.state.is_decided
                    continue
                assert after.state in NEXT_STATES.get(before.state, _IDLE)
                if before.state.is_decided and after.state is before.state:
                    assert after == before
                if before.state is TransactionState.ONGOING:
                    assert set(before.partitions) <= set(after.partitions)

    @invariant()
    def epochs_only_grow(self) -> None:
        for history in self.histories().values():
            epochs: dict[int, int] = {}
            for one in history:
                if one is not None:
                    assert epochs.get(one.producer_id, -1) <= one.producer_epoch
                    epochs[one.producer_id] = one.producer_epoch

    @invariant()
    def whose_place_was_taken_changes_nothing(self) -> None:
        requests = [*self.asked, *[asked for asked, _ in self.ends], *[asked for asked, _ in self.adds]]
        assert not [asked for asked in requests if asked.is_done and asked.instance.number < asked.owner_number]

    @invariant()
    def what_was_answered_as_done_is_safe(self) -> None:
        histories = self.histories()
        for asked, is_commit in self.ends:
            if asked.is_done:
                producer_id, epoch = asked.instance.producer
                # A repeated end may carry the id and epoch from before the decision, or those after it.
                known_as = ((producer_id, epoch), (producer_id, epoch + 1))
                assert any(
                    one is not None
                    and one.state in (COMMITTED if is_commit else ABORTED)
                    and (one.producer_id, one.producer_epoch) in known_as
                    for one in histories[asked.transactional_id]
                )
        for asked, partition in self.adds:
            if asked.is_done:
                assert any(
                    one is not None
                    and one.state is TransactionState.ONGOING
                    and Producer(one.producer_id, one.producer_epoch) == asked.instance.producer
                    and partition in one.partitions
                    for one in histories[asked.transactional_id]
                )

    @invariant()
    def the_markers_are_those_of_a_safe_decision(self) -> None:
        safe = [_decoded(value) for _, value in self.shard.log[: self.shard.safe_count] if value is not None]
        for markers in self.shard.markers:
            state = TransactionState.PREPARE_COMMIT if markers.is_commit else TransactionState.PREPARE_ABORT
            assert any(
                one.state is state
                and Producer(one.producer_id, one.producer_epoch) == markers.producer
                and one.partitions == markers.partitions
                for one in safe
            )

    @invariant()
    def no_request_is_answered_twice(self) -> None:
        answered = [answers for *_, answers in self.inits]
        requests = [*[asked for asked, _ in self.ends], *[asked for asked, _ in self.adds]]
        assert all(len(answers) <= 1 for answers in answered)
        assert all(len(asked.answers) <= 1 for asked in requests)

    def teardown(self) -> None:
        """Nothing hangs: without further input, every request is answered and every prepared transaction becomes complete."""
        if not hasattr(self, "shard"):
            return
        self.shard.holds_commits = False
        self.shard.commit_all()
        self.shard.advance(5000)
        self.shard.deliver_all()
        assert not [one for one in self.shard.shard.state.logged.values() if one.state.is_decided]
        assert all(answers for *_, answers in self.inits)
        assert all(asked.answers for asked, _ in [*self.ends, *self.adds])


TransactionMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40)
TestTransactions = TransactionMachine.TestCase
