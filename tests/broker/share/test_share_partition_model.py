"""A state machine drives a share partition with random members, failures and crashes, against a model of every offset.

No record is acquired by two members at once, none is delivered again after its acceptance was persisted, none exceeds the
delivery count limit, and none is lost: in the end each was accepted, rejected, or archived after its last delivery.
"""

from __future__ import annotations

from typing import NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from kio.schema.errors import ErrorCode
from tests.broker.share.share_model import Fate, Model, Store

from catchment.broker.share.in_flight import (
    Acknowledgement,
    AcknowledgeType,
    FetchLimits,
    PendingAcknowledgement,
    RecordRules,
    RecordState,
)
from catchment.broker.share.partition import SharePartition
from catchment.coordination.share_state.batches import StateBatch
from catchment.protocol.errors import ApiError

MEMBERS = ("a", "b", "c")
LARGEST_BATCH = 5
LARGEST_GAP = 2
READ_AT_ONCE = 4
KINDS = st.sampled_from(AcknowledgeType)


class Writing(NamedTuple):
    """A write in progress. Nothing waits for one without a pending acknowledgement."""

    start_offset: int
    batches: tuple[StateBatch, ...]
    pending: PendingAcknowledgement | None
    offsets: tuple[int, ...] = ()


class SharePartitionMachine(RuleBasedStateMachine):
    @initialize(limit=st.integers(2, 5), locks=st.integers(3, 15))
    def start(self, limit: int, locks: int) -> None:
        self.model = Model(RecordRules(lock_duration_ms=1000, max_delivery_count=limit, max_record_locks=locks))
        self.store = Store()
        self.share = SharePartition(0)
        self.writing: list[Writing] = []
        self.now_ms = 0

    @rule(size=st.integers(1, LARGEST_BATCH), gap=st.integers(0, LARGEST_GAP), is_deliverable=st.booleans())
    def append(self, size: int, gap: int, is_deliverable: bool) -> None:
        self.model.append(size, gap, is_deliverable=is_deliverable)

    @rule(member=st.sampled_from(MEMBERS), max_records=st.integers(1, 8), is_exact=st.booleans())
    def fetch(self, member: str, max_records: int, is_exact: bool) -> None:
        limits = FetchLimits(max_records, batch_size=3, is_exact=is_exact)
        taken = self._fetch(member, limits)
        assert not is_exact or taken <= max_records

    @rule(member=st.sampled_from(MEMBERS), data=st.data())
    def acknowledge(self, member: str, data: st.DataObject) -> None:
        held = self.model.held(member)
        if not held:
            return
        first = data.draw(st.sampled_from(held))
        last = first
        while last + 1 in held and data.draw(st.booleans()):
            last += 1
        types = data.draw(st.lists(KINDS, min_size=last - first + 1, max_size=last - first + 1) | st.tuples(KINDS))
        self._acknowledge(member, first, last, list(types))

    @rule(member=st.sampled_from(MEMBERS), data=st.data())
    def acknowledge_what_is_not_held(self, member: str, data: st.DataObject) -> None:
        others = [
            offset
            for offset in self.model.fates
            if offset >= self.share.start_offset and offset < self.share.end_offset
        ]
        not_held = [offset for offset in others if offset not in self.model.held(member)]
        if not_held:
            offset = data.draw(st.sampled_from(not_held))
            with pytest.raises(ApiError) as refused:
                self.share.acknowledge(
                    member, [Acknowledgement(offset, offset, [AcknowledgeType.ACCEPT])], self.model.rules, self.now_ms
                )
            assert refused.value.code is ErrorCode.invalid_record_state

    @precondition(lambda self: self.writing)
    @rule()
    def finish_write(self) -> None:
        writing = self.writing.pop(0)
        self.store.write(writing.start_offset, writing.batches)
        if writing.pending is None:
            return
        self.share.commit(writing.pending)
        states = {offset: batch for batch in writing.batches for offset in range(batch[0], batch[1] + 1)}
        for offset in self._changing(writing):
            batch = states[offset]
            self.model.fates[offset] = Fate(RecordState(batch.delivery_state), batch.delivery_count)

    @precondition(lambda self: self.writing)
    @rule()
    def fail_write(self) -> None:
        writing = self.writing.pop(0)
        if writing.pending is not None:
            self.share.roll_back(writing.pending)
            for offset in self._changing(writing):
                self.model.fates[offset].is_changing = False

    @rule(milliseconds=st.integers(1, 1500))
    def let_time_pass(self, milliseconds: int) -> None:
        self.now_ms += milliseconds
        self.model.expire(self.now_ms)
        self._write_later(self.share.expire(self.model.rules, self.now_ms))

    @rule(member=st.sampled_from(MEMBERS))
    def end_session(self, member: str) -> None:
        for offset in self.model.held(member):
            self.model.set_free(offset)
        self._write_later(self.share.release(member, self.model.rules))

    @rule(data=st.data())
    def move_log_start(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.model.log_end))
        self.model.move_start(offset)
        self.share.move_start(offset)

    @rule(data=st.data())
    def crash(self, data: st.DataObject) -> None:
        """A prefix of the writes in progress may have been persisted."""
        arrived = data.draw(st.integers(0, len(self.writing)))
        for writing in self.writing[:arrived]:
            self.store.write(writing.start_offset, writing.batches)
        self.writing.clear()
        self.share = SharePartition(self.store.start_offset, self.store.batches())
        self.share.move_start(self.model.log_start)
        self.model.reload(self.store)

    @invariant()
    def what_is_in_flight_is_bounded(self) -> None:
        share, rules = self.share, self.model.rules
        assert share.start_offset <= share.end_offset
        most = rules.max_record_locks + LARGEST_BATCH + READ_AT_ONCE * LARGEST_GAP
        assert share.end_offset - share.start_offset <= most

    def teardown(self) -> None:
        """In any state, a member that accepts all it gets empties the partition."""
        if not hasattr(self, "share"):
            return
        while self.writing:
            self.fail_write()
        self.let_time_pass(10_000)
        while self.writing or self._fetch("a", FetchLimits(100, 100)):
            while self.writing:
                self.finish_write()
            for offset in self.model.held("a"):
                self._acknowledge("a", offset, offset, [AcknowledgeType.ACCEPT])
        assert all(fate.state.is_final for fate in self.model.fates.values())
        assert all(fate.delivery_count <= self.model.rules.max_delivery_count for fate in self.model.fates.values())

    def _fetch(self, member: str, limits: FetchLimits) -> int:
        taken = 0
        offset = self.share.next_fetch_offset(self.model.rules)
        while offset is not None and not taken:
            log_batches = [log_batch for log_batch in self.model.log_batches if log_batch.last_offset >= offset][
                :READ_AT_ONCE
            ]
            for acquired in self.share.acquire(member, offset, log_batches, limits, self.model.rules, self.now_ms):
                for each in range(acquired.first_offset, acquired.last_offset + 1):
                    self.model.acquire(each, member, acquired.delivery_count, self.now_ms)
                    taken += 1
            next_offset = self.share.next_fetch_offset(self.model.rules)
            if next_offset is None or next_offset <= offset:
                break
            offset = next_offset
        return taken

    def _acknowledge(self, member: str, first: int, last: int, types: list[AcknowledgeType]) -> None:
        acknowledgement = Acknowledgement(first, last, types)
        start_offset = self.share.start_offset
        pending = self.share.acknowledge(member, [acknowledgement], self.model.rules, self.now_ms)
        kinds = types if len(types) > 1 else types * (last - first + 1)
        changing = []
        for offset, kind in zip(range(first, last + 1), kinds, strict=True):
            if kind is AcknowledgeType.RENEW:
                self.model.fates[offset].deadline_ms = self.now_ms + self.model.rules.lock_duration_ms
            else:
                self.model.fates[offset].is_changing = True
                changing.append(offset)
        if pending.batches:
            self.writing.append(Writing(start_offset, pending.batches, pending, tuple(changing)))

    def _changing(self, writing: Writing) -> list[int]:
        """The records that the log still holds."""
        return [offset for offset in writing.offsets if offset in self.model.fates]

    def _write_later(self, batches: tuple[StateBatch, ...]) -> None:
        if batches:
            self.writing.append(Writing(self.share.start_offset, batches, None))


SharePartitionMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40)
TestSharePartition = SharePartitionMachine.TestCase
