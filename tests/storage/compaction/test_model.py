"""Random histories of a compacted log against a plain list of what must be left of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.storage.compaction.cleaning import COMPACTED, Kept, clean, data_records, keyed
from tests.storage.logs import NOW_MS, check_indexes, marker, new_log, reopened, sync

from catchment.ports.clock import ManualClock
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.batch import iterate_headers
from catchment.storage.log import Log

_PAIRS = st.lists(
    st.tuples(
        st.sampled_from([b"a", b"b", b"c", b"a key of more than sixteen bytes"]), st.none() | st.binary(max_size=40)
    ),
    min_size=1,
    max_size=4,
)
_CODECS = st.sampled_from([0, 0, 1, 2, 3, 4])
_PRODUCERS = st.integers(1, 3)


@dataclass
class Batch:
    """What is left of a batch, and until when its tombstones stay."""

    records: list[Kept]
    is_aborted: bool = False
    horizon_ms: int | None = None


@dataclass
class Model:
    batches: list[Batch] = field(default_factory=list)

    def clean(self, end_offset: int, now_ms: int, delete_retention_ms: int) -> None:
        last = {
            record.key: record.offset
            for batch in self.batches
            if not batch.is_aborted
            for record in batch.records
            if record.offset < end_offset
        }
        for batch in self.batches:
            if not batch.records or batch.records[0].offset >= end_offset:
                continue
            is_past = batch.horizon_ms is not None and now_ms >= batch.horizon_ms
            batch.records = [
                record
                for record in batch.records
                if not batch.is_aborted and last[record.key] == record.offset and not (record.value is None and is_past)
            ]
            if batch.horizon_ms is None and any(record.value is None for record in batch.records):
                batch.horizon_ms = now_ms + delete_retention_ms

    def records(self) -> list[Kept]:
        return [record for batch in self.batches for record in batch.records]


class CompactionHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()
        self.clock = ManualClock(NOW_MS)
        self.log: Log = new_log(self.disk, COMPACTED, self.clock)
        self.model = Model()
        self.clean_offset: int | None = None
        self.open: dict[int, list[Batch]] = {}

    @rule(pairs=_PAIRS, compression=_CODECS)
    def append(self, pairs: list[tuple[bytes, bytes | None]], compression: int) -> None:
        self._append(pairs, compression)

    @rule(pairs=_PAIRS, compression=_CODECS, producer_id=_PRODUCERS)
    def append_in_transaction(
        self, pairs: list[tuple[bytes, bytes | None]], compression: int, producer_id: int
    ) -> None:
        batch = self._append(pairs, compression, producer_id)
        self.open.setdefault(producer_id, []).append(batch)

    @precondition(lambda self: self.open)
    @rule(data=st.data(), is_commit=st.booleans())
    def end_transaction(self, data: st.DataObject, is_commit: bool) -> None:
        producer_id = data.draw(st.sampled_from(sorted(self.open)))
        for batch in self.open.pop(producer_id):
            batch.is_aborted = not is_commit
        self.log.append_as_leader(marker(producer_id, is_commit=is_commit), 0, is_from_client=False)

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule(milliseconds=st.sampled_from([1, 5_000, 10_000, 60_000]))
    def wait(self, milliseconds: int) -> None:
        self.clock.advance(milliseconds)
        self.log.remove_deleted(self.clock.now_ms())

    @rule()
    def compact(self) -> None:
        before = self.clean_offset
        self.clean_offset = clean(self.disk, self.log, before)
        if self.clean_offset is not None and self.clean_offset != before:
            self.model.clean(self.clean_offset, self.clock.now_ms(), COMPACTED.delete_retention_ms)
        assert data_records(self.log) == self.model.records()
        check_indexes(self.log)

    @rule()
    def stop_cleanly(self) -> None:
        end_offset, producers = self.log.log_end_offset, self._producers()
        self.log.close()
        self.log = reopened(self.disk, COMPACTED, is_clean=True, recovery_point=end_offset, clock=self.clock)
        assert (self.log.log_end_offset, self._producers()) == (end_offset, producers)

    @rule()
    def recover_from_the_batches_alone(self) -> None:
        """What compaction keeps is enough to rebuild every producer's epoch and sequence, and the open transactions."""
        end_offset, producers = self.log.log_end_offset, self._producers()
        stable_offset = self.log.last_stable_offset(end_offset)
        sync(self.log)
        self.log.close(clean=False)
        self.log = reopened(self.disk, COMPACTED, clock=self.clock)
        assert (self.log.log_end_offset, self._producers()) == (end_offset, producers)
        assert self.log.last_stable_offset(end_offset) == stable_offset

    @invariant()
    def records_are_those_of_the_model(self) -> None:
        assert data_records(self.log) == self.model.records()

    @rule(data=st.data())
    def reading_goes_on_from_any_offset(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(0, self.log.log_end_offset))
        seen: set[int] = set()
        start = offset
        while start < self.log.log_end_offset:
            found = self.log.read(start, 200, self.log.log_end_offset)
            headers = [header for _, header in iterate_headers(found)]
            if not headers:
                break
            seen.update(range(max(offset, headers[0].base_offset), headers[-1].next_offset))
            start = headers[-1].next_offset
        assert {record.offset for record in self.model.records() if record.offset >= offset} <= seen

    def _append(self, pairs: list[tuple[bytes, bytes | None]], compression: int, producer_id: int = -1) -> Batch:
        now_ms = self.clock.now_ms()
        known = self.log.producers.get(producer_id)
        sequence = -1 if producer_id < 0 else 0 if known is None else known.last_sequence + 1
        data = keyed(
            *pairs,
            timestamp_ms=now_ms,
            producer_id=producer_id,
            sequence=sequence,
            is_transactional=producer_id >= 0,
            compression=compression,
        )
        base_offset = self.log.append_as_leader(data, 0).base_offset
        batch = Batch([Kept(base_offset + delta, *pair, now_ms + delta) for delta, pair in enumerate(pairs)])
        self.model.batches.append(batch)
        return batch

    def _producers(self) -> dict[int, tuple[int, int, int | None]]:
        return {
            entry.producer_id: (entry.epoch, entry.last_sequence, entry.transaction_first_offset)
            for entry in self.log.producers
        }


TestCompactionHistory = CompactionHistory.TestCase
TestCompactionHistory.settings = settings(max_examples=60, stateful_step_count=40)
