"""A share partition, offset by offset: the slow and simple model that the real one is compared with."""

from dataclasses import dataclass
from typing import NamedTuple

from catchment.broker.share.in_flight import LogBatch, RecordRules, RecordState
from catchment.coordination.share_state.batches import StateBatch


@dataclass
class Fate:
    """The state of one record."""

    state: RecordState = RecordState.AVAILABLE
    delivery_count: int = 0
    member_id: str = ""
    deadline_ms: int = 0
    is_changing: bool = False


class Persisted(NamedTuple):
    state: int
    delivery_count: int


class Store:
    """The state after a crash: among the writes for an offset the highest delivery count wins, then the most final state."""

    def __init__(self) -> None:
        self.start_offset = 0
        self._states: dict[int, Persisted] = {}

    def write(self, start_offset: int, batches: tuple[StateBatch, ...]) -> None:
        assert start_offset >= self.start_offset
        self.start_offset = start_offset
        for batch in batches:
            for offset in range(batch.first_offset, batch.last_offset + 1):
                new = Persisted(batch.delivery_state, batch.delivery_count)
                old = self._states.get(offset, new)
                self._states[offset] = max(old, new, key=lambda each: (each.delivery_count, each.state))

    def batches(self) -> list[StateBatch]:
        return [StateBatch(offset, offset, *persisted) for offset, persisted in self._states.items()]

    def fate(self, offset: int) -> Fate:
        if offset < self.start_offset:
            return Fate(RecordState.ARCHIVED)
        state, delivery_count = self._states.get(offset, Persisted(0, 0))
        return Fate(RecordState(state), delivery_count)


class Model:
    def __init__(self, rules: RecordRules) -> None:
        self.rules = rules
        self.log_batches: list[LogBatch] = []
        self.fates: dict[int, Fate] = {}
        """Of the deliverable records."""
        self.log_start = 0
        self.log_end = 0

    def append(self, size: int, gap: int, *, is_deliverable: bool) -> None:
        base = self.log_end + gap
        self.log_end = base + size
        self.log_batches.append(LogBatch(base, self.log_end - 1, is_deliverable))
        if is_deliverable:
            self.fates.update({offset: Fate() for offset in range(base, self.log_end)})

    def move_start(self, offset: int) -> None:
        self.log_start = max(self.log_start, offset)
        self.log_batches = [log_batch for log_batch in self.log_batches if log_batch.last_offset >= offset]
        self.fates = {each: fate for each, fate in self.fates.items() if each >= offset}

    def acquire(self, offset: int, member_id: str, delivery_count: int, now_ms: int) -> None:
        fate = self.fates[offset]
        assert fate.state is RecordState.AVAILABLE
        assert not fate.is_changing
        fate.state = RecordState.ACQUIRED
        fate.delivery_count += 1
        assert fate.delivery_count == delivery_count <= self.rules.max_delivery_count
        fate.member_id = member_id
        fate.deadline_ms = now_ms + self.rules.lock_duration_ms

    def held(self, member_id: str) -> list[int]:
        return [offset for offset, fate in self.fates.items() if self.is_held(offset) and fate.member_id == member_id]

    def is_held(self, offset: int) -> bool:
        fate = self.fates[offset]
        return fate.state is RecordState.ACQUIRED and not fate.is_changing

    def set_free(self, offset: int) -> None:
        fate = self.fates[offset]
        is_spent = fate.delivery_count >= self.rules.max_delivery_count
        self.fates[offset] = Fate(RecordState.ARCHIVED if is_spent else RecordState.AVAILABLE, fate.delivery_count)

    def expire(self, now_ms: int) -> None:
        for offset, fate in list(self.fates.items()):
            if self.is_held(offset) and fate.deadline_ms <= now_ms:
                self.set_free(offset)

    def reload(self, store: Store) -> None:
        self.fates = {offset: store.fate(offset) for offset in self.fates}
