"""What the log says of share-partitions: their states, and how much of the log is still needed to tell them."""

from __future__ import annotations

from collections.abc import Iterator

from catchment.coordination.share_state.batches import NO_START, merge
from catchment.coordination.share_state.records import ShareKey, ShareState, Update, decode_record

_NO_EPOCH = -1


class _Entry:
    __slots__ = ("snapshot_number", "state", "update_count")

    def __init__(self, state: ShareState, snapshot_number: int) -> None:
        self.state = state
        self.snapshot_number = snapshot_number
        """Which record of all that were replayed holds the last snapshot."""
        self.update_count = 0
        """Updates since then."""


class ShareStates:
    __slots__ = ("_entries", "_replayed_count")

    def __init__(self) -> None:
        self._entries: dict[ShareKey, _Entry] = {}
        self._replayed_count = 0

    def __iter__(self) -> Iterator[ShareKey]:
        return iter(list(self._entries))

    def __len__(self) -> int:
        return len(self._entries)

    @property
    def needed_count(self) -> int:
        """How many of the newest records tell all that there is: what lies before them can be cut off."""
        oldest = min((entry.snapshot_number for entry in self._entries.values()), default=self._replayed_count)
        return self._replayed_count - oldest

    @property
    def redundant_count(self) -> int:
        """How many of the needed records could go, were they not behind one that is needed."""
        return self.needed_count - sum(1 + entry.update_count for entry in self._entries.values())

    def get(self, key: ShareKey) -> ShareState | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.state

    def update_count(self, key: ShareKey) -> int:
        """Updates that the last snapshot does not hold."""
        entry = self._entries.get(key)
        return 0 if entry is None else entry.update_count

    def replay(self, key: bytes, value: bytes | None) -> None:
        decoded = decode_record(key, value)
        number = self._replayed_count
        self._replayed_count += 1
        if decoded is None:
            return
        share_key, said = decoded
        if said is None:
            self._entries.pop(share_key, None)
        elif isinstance(said, ShareState):
            self._entries[share_key] = _Entry(said, number)
        else:
            # An update without its snapshot tells at least what it holds itself, as in Kafka.
            entry = self._entries.setdefault(share_key, _Entry(_before(said), number))
            entry.state = self.updated(entry.state, said)
            entry.update_count += 1

    @staticmethod
    def updated(state: ShareState, update: Update) -> ShareState:
        start_offset = state.start_offset if update.start_offset == NO_START else update.start_offset
        return state._replace(
            leader_epoch=state.leader_epoch if update.leader_epoch == _NO_EPOCH else update.leader_epoch,
            start_offset=start_offset,
            batches=merge(state.batches, update.batches, start_offset),
            delivery_complete_count=update.delivery_complete_count,
        )


def _before(update: Update) -> ShareState:
    return ShareState(update.snapshot_epoch, 0, update.leader_epoch, update.start_offset, 0, 0, ())
