"""Random histories of a log against a plain list: appends, rolls, truncations, deletions, stops and restarts."""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from tests.storage.logs import NOW_MS, batch, check_indexes, new_log, read_all, reopened, sync

from catchment.ports.clock import ManualClock
from catchment.ports.memory_disk import MemoryDisk
from catchment.storage.leader_epochs import EpochStart
from catchment.storage.log import Log

_VALUES = st.lists(st.binary(max_size=120), min_size=1, max_size=4)


class LogHistory(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.disk = MemoryDisk()
        self.clock = ManualClock(NOW_MS)
        self.log: Log = new_log(self.disk, clock=self.clock)
        self.model: list[tuple[int, bytes]] = []
        self.boundaries = [0]
        self.epoch = 0
        self.sequences: dict[int, int] = {}

    @rule(values=_VALUES, timestamp_delta_ms=st.integers(-5000, 5000))
    def append(self, values: list[bytes], timestamp_delta_ms: int) -> None:
        info = self.log.append_as_leader(batch(*values, timestamp_ms=NOW_MS + timestamp_delta_ms), self.epoch)
        assert info.base_offset == self.boundaries[-1]
        self._extend(values)

    @rule(values=_VALUES, producer_id=st.integers(1, 3))
    def append_idempotent(self, values: list[bytes], producer_id: int) -> None:
        state = self.log.producers.get(producer_id)
        sequence = 0 if state is None or not state.batches else (state.last_sequence + 1)
        data = batch(*values, producer_id=producer_id, epoch=0, sequence=sequence)
        info = self.log.append_as_leader(data, self.epoch)
        assert not info.is_duplicate
        again = self.log.append_as_leader(data, self.epoch)
        assert again.is_duplicate
        assert (again.base_offset, again.last_offset) == (info.base_offset, info.last_offset)
        self._extend(values)

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1

    @rule()
    def roll(self) -> None:
        self.log.roll()

    @rule()
    def flush(self) -> None:
        sync(self.log)
        assert self.log.recovery_point == self.log.log_end_offset

    @rule(data=st.data())
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.log.log_start_offset, self.log.log_end_offset))
        self.log.truncate_to(offset)
        end = max(boundary for boundary in [*self.boundaries, self.log.segments.first_offset] if boundary <= offset)
        assert self.log.log_end_offset == end
        self.boundaries = [boundary for boundary in self.boundaries if boundary <= end] or [end]
        self.model = [record for record in self.model if record[0] < end]

    @rule(data=st.data())
    def delete_records(self, data: st.DataObject) -> None:
        offset = data.draw(st.integers(self.log.log_start_offset, self.log.log_end_offset))
        self.log.advance_log_start(offset)
        self.model = [record for record in self.model if record[0] >= offset]

    @rule()
    def stop_cleanly(self) -> None:
        start, end = self.log.log_start_offset, self.log.log_end_offset
        producers = _producers(self.log, batches=1)
        epochs = _epochs(self.log)
        self.log.close()
        self.log = reopened(self.disk, is_clean=True, recovery_point=end, log_start_offset=start, clock=self.clock)
        assert _producers(self.log, batches=1) == producers
        assert _epochs(self.log) == epochs

    @rule()
    def get_killed(self) -> None:
        start, recovery_point = self.log.log_start_offset, self.log.recovery_point
        producers = _producers(self.log, batches=1)
        epochs = _epochs(self.log)
        self.log = reopened(self.disk, recovery_point=recovery_point, log_start_offset=start, clock=self.clock)
        assert _producers(self.log, batches=1) == producers
        assert _epochs(self.log) == epochs

    @invariant()
    def offsets_agree(self) -> None:
        assert self.log.log_end_offset == self.boundaries[-1]
        assert self.log.recovery_point <= self.log.synced_offset <= self.log.log_end_offset

    @invariant()
    def records_agree(self) -> None:
        assert read_all(self.log) == self.model

    @precondition(lambda self: len(self.model) > 0)
    @rule(data=st.data())
    def read_below_a_watermark(self, data: st.DataObject) -> None:
        upper = data.draw(
            st.sampled_from([boundary for boundary in self.boundaries if boundary >= self.log.log_start_offset])
        )
        assert read_all(self.log, upper) == [record for record in self.model if record[0] < upper]

    @invariant()
    def indexes_are_sound(self) -> None:
        check_indexes(self.log)

    def _extend(self, values: list[bytes]) -> None:
        base = self.boundaries[-1]
        self.model.extend((base + delta, value) for delta, value in enumerate(values))
        self.boundaries.append(base + len(values))


def _producers(log: Log, batches: int) -> list[tuple[object, ...]]:
    return sorted(
        (entry.producer_id, entry.epoch, *list(entry.batches)[-batches:], entry.transaction_first_offset)
        for entry in log.producers
    )


def _epochs(log: Log) -> list[EpochStart]:
    """The epochs with records; a restart begins another epoch anyway."""
    return [entry for entry in log.leader_epochs.entries if entry.start_offset < log.log_end_offset]


TestLogHistory = LogHistory.TestCase
TestLogHistory.settings = settings(max_examples=60, stateful_step_count=30)
