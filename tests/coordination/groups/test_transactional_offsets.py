"""Offsets in transactions take effect when their transaction commits, and never overwrite an offset that was logged later.

The state machine keeps the log as a list of entries, their producers and the outcome of each transaction, and computes every
offset from it: the last entry that is not part of an open or aborted transaction.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from kio.schema.errors import ErrorCode
from tests.coordination.groups.shards import LIMITS, LoggedShard

from catchment.coordination.coordinator_shard import NO_PRODUCER, Producer
from catchment.coordination.groups.classic.group import GroupState
from catchment.coordination.groups.offset_commands import CommitRequest
from catchment.coordination.groups.records import OffsetKey, OffsetToCommit, decode_key, decode_offset
from catchment.coordination.groups.shard import GroupShard
from catchment.coordination.groups.state import GroupLimits

WEEK_MS = LIMITS.offsets_retention_ms


class Marker(NamedTuple):
    producer_id: int
    is_commit: bool


class Entry(NamedTuple):
    key: bytes
    value: bytes | None
    producer_id: int


class TransactionalShard(LoggedShard):
    """A logged shard whose log has transactions in it."""

    def __init__(self, limits: GroupLimits = LIMITS) -> None:
        super().__init__(limits)
        self.entries: list[Entry | Marker] = []

    def commit_in(
        self,
        producer_id: int,
        offset: int,
        group_id: str = "g",
        partition: int = 0,
        *,
        member_id: str = "",
        generation: int = -1,
    ) -> ErrorCode:
        outcomes: list[list[ErrorCode]] = []
        offsets = [OffsetToCommit("t", partition, offset, -1, "")]
        self.call(
            lambda shard, now: shard.offsets.commit(
                CommitRequest(group_id, generation, member_id, None, offsets, Producer(producer_id, 0)),
                outcomes.append,
                now,
            )
        )
        ((outcome,),) = outcomes
        return outcome

    def end(self, producer_id: int, *, is_commit: bool) -> None:
        self.entries.append(Marker(producer_id, is_commit))
        self.call(lambda shard, _: shard.end_transaction(producer_id, is_commit))

    def replayed(self) -> None:
        """Replay the log into a new shard."""
        self.shard.close(ErrorCode.not_coordinator)
        self.shard = GroupShard(self.limits)
        for entry in self.entries:
            if isinstance(entry, Marker):
                self.shard.end_transaction(*entry)
            else:
                self.shard.replay(*entry)
        self.call(lambda shard, now: shard.loaded(now))

    def unstable(self, group_id: str = "g") -> set[tuple[str, int]]:
        return self.call(lambda shard, _: set(shard.offsets.pending(group_id)))

    def offset(self, group_id: str = "g", partition: int = 0) -> int | None:
        found = self.offsets(group_id).get(("t", partition))
        return None if found is None else found.offset

    def expire(self) -> None:
        self.call(lambda shard, now: shard.offsets.expire(now))

    def _drain(self) -> None:
        while writes := self.shard.take_writes():
            for write in writes:
                producer_id = NO_PRODUCER if write.producer is None else write.producer.producer_id
                for key, value in write.records:
                    self.entries.append(Entry(key, value, producer_id))
                    self.shard.replay(key, value, producer_id)
                write.committed(self.now)


def test_an_offset_takes_effect_once_its_transaction_commits() -> None:
    shard = TransactionalShard()
    shard.commit(1)
    assert shard.commit_in(7, 5) is ErrorCode.none
    assert (shard.offset(), shard.unstable()) == (1, {("t", 0)})
    shard.end(7, is_commit=True)
    assert (shard.offset(), shard.unstable()) == (5, set())


def test_an_offset_of_an_aborted_transaction_is_dropped() -> None:
    shard = TransactionalShard()
    shard.commit_in(7, 5)
    assert shard.state() is GroupState.EMPTY
    shard.end(7, is_commit=False)
    assert shard.state() is GroupState.DEAD
    assert (shard.offset(), shard.unstable()) == (None, set())


def test_a_transaction_that_ends_later_does_not_overwrite_an_offset_that_was_logged_after_its_own() -> None:
    shard = TransactionalShard()
    shard.commit_in(7, 5)
    shard.commit(6)
    assert shard.unstable() == {("t", 0)}
    shard.end(7, is_commit=True)
    assert shard.offset() == 6


def test_of_two_transactions_the_one_whose_offset_was_logged_later_wins() -> None:
    shard = TransactionalShard()
    shard.commit_in(7, 5)
    shard.commit_in(8, 6)
    shard.end(8, is_commit=True)
    shard.end(7, is_commit=True)
    assert shard.offset() == 6


@pytest.mark.parametrize("is_commit", [True, False])
def test_an_open_transaction_is_open_after_a_restart(is_commit: bool) -> None:
    shard = TransactionalShard()
    shard.commit(1)
    shard.commit_in(7, 5)
    shard.replayed()
    assert (shard.offset(), shard.unstable()) == (1, {("t", 0)})
    shard.end(7, is_commit=is_commit)
    assert shard.offset() == (5 if is_commit else 1)


def test_a_pending_offset_keeps_its_group_and_its_partition_from_expiring() -> None:
    shard = TransactionalShard()
    shard.commit(1)
    shard.commit(1, partition=1)
    shard.commit_in(7, 5)
    shard.advance(WEEK_MS)
    shard.expire()
    assert shard.offsets().keys() == {("t", 0)}
    shard.end(7, is_commit=False)
    shard.expire()
    assert shard.state() is GroupState.DEAD


def test_deleting_a_group_deletes_its_pending_offsets() -> None:
    shard = TransactionalShard()
    shard.commit_in(7, 5)
    assert shard.delete() == [ErrorCode.none]
    shard.end(7, is_commit=True)
    assert shard.offset() is None
    assert shard.state() is GroupState.DEAD


def test_deleting_offsets_or_their_topic_deletes_pending_offsets() -> None:
    shard = TransactionalShard()
    shard.commit_in(7, 5)
    shard.commit_in(7, 5, partition=1)
    shard.call(lambda inner, _: inner.offsets.delete("g", [("t", 0)], lambda _: None))
    assert shard.unstable() == {("t", 1)}
    shard.call(lambda inner, _: inner.offsets.delete_topic("t"))
    shard.end(7, is_commit=True)
    assert shard.offsets() == {}


def test_a_member_commits_with_its_generation_and_a_producer_may_omit_it() -> None:
    shard = TransactionalShard()
    (member,) = shard.stable_group()
    assert shard.commit_in(7, 5, member_id=member.member_id, generation=member.generation) is ErrorCode.none
    assert shard.commit_in(7, 5) is ErrorCode.none
    assert shard.commit_in(7, 5, member_id=member.member_id, generation=9) is ErrorCode.illegal_generation
    assert shard.commit_in(7, 5, member_id="unknown", generation=1) is ErrorCode.unknown_member_id
    assert shard.commit_in(7, 5, group_id="none", generation=1) is ErrorCode.illegal_generation


def test_a_transactional_commit_is_allowed_while_assignments_are_awaited() -> None:
    """Only commits outside of transactions are rejected then, as in Kafka."""
    shard = TransactionalShard()
    (joined,) = shard.join()
    assert shard.state() is GroupState.COMPLETING
    assert shard.commit_in(7, 5, member_id=joined.member_id, generation=joined.generation) is ErrorCode.none


GROUPS = ("a", "b")
PRODUCERS = (1, 2, 3)
PARTITIONS = (0, 1)


class OffsetsMachine(RuleBasedStateMachine):
    @initialize()
    def start(self) -> None:
        self.shard = TransactionalShard()
        self.count = 0

    @rule(group=st.sampled_from(GROUPS), partition=st.sampled_from(PARTITIONS))
    def commit(self, group: str, partition: int) -> None:
        self.count += 1
        assert self.shard.commit(self.count, group_id=group, partition=partition) == [ErrorCode.none]

    @rule(producer=st.sampled_from(PRODUCERS), group=st.sampled_from(GROUPS), partition=st.sampled_from(PARTITIONS))
    def commit_in_transaction(self, producer: int, group: str, partition: int) -> None:
        self.count += 1
        assert self.shard.commit_in(producer, self.count, group, partition) is ErrorCode.none

    @rule(producer=st.sampled_from(PRODUCERS), is_commit=st.booleans())
    def end(self, producer: int, is_commit: bool) -> None:
        self.shard.end(producer, is_commit=is_commit)

    @rule(group=st.sampled_from(GROUPS))
    def delete_group(self, group: str) -> None:
        self.shard.delete(group)

    @rule(group=st.sampled_from(GROUPS), partition=st.sampled_from(PARTITIONS))
    def delete_offset(self, group: str, partition: int) -> None:
        if self.shard.state(group) is not GroupState.DEAD:
            self.shard.call(lambda inner, _: inner.offsets.delete(group, [("t", partition)], lambda _: None))

    @rule(milliseconds=st.sampled_from((1000, WEEK_MS)))
    def expire(self, milliseconds: int) -> None:
        self.shard.advance(milliseconds)
        self.shard.expire()

    @rule()
    def restart(self) -> None:
        self.shard.replayed()

    @invariant()
    def offsets_are_what_the_log_says(self) -> None:
        committed, pending = self._from_the_log()
        for group in GROUPS:
            expected = {("t", key.partition): offset for key, offset in committed.items() if key.group_id == group}
            assert {where: found.offset for where, found in self.shard.offsets(group).items()} == expected
            assert self.shard.unstable(group) == {("t", key.partition) for key in pending if key.group_id == group}
            has_any = bool(expected) or bool(self.shard.unstable(group))
            assert has_any == (self.shard.state(group) is not GroupState.DEAD)

    def _from_the_log(self) -> tuple[dict[OffsetKey, int], set[OffsetKey]]:
        """The last valid entry of each key, and the keys that open transactions have written since their last deletion."""
        outcome: dict[int, bool | None] = {}
        counts: dict[int, bool | None] = {}
        for position in reversed(range(len(self.shard.entries))):
            entry = self.shard.entries[position]
            if isinstance(entry, Marker):
                outcome[entry.producer_id] = entry.is_commit
            else:
                counts[position] = True if entry.producer_id == NO_PRODUCER else outcome.get(entry.producer_id)
        committed: dict[OffsetKey, int] = {}
        pending: set[OffsetKey] = set()
        for position, entry in enumerate(self.shard.entries):
            if isinstance(entry, Marker):
                continue
            key = decode_key(entry.key)
            assert isinstance(key, OffsetKey)
            if entry.value is None:
                committed.pop(key, None)
                pending.discard(key)
            elif counts[position] is None:
                pending.add(key)
            elif counts[position]:
                committed[key] = decode_offset(entry.value).offset
        return committed, pending


OffsetsMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestTransactionalOffsets = OffsetsMachine.TestCase
