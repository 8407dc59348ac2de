"""One shard of the share-state coordinator: the states of share-partitions, as whoever runs it sees them.

A state begins with its initialisation and is changed only by the newest leader of its partition. Most changes are written as
updates, and now and then as a snapshot of the whole, so that loading stays short and what lies before can be cut off.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import NO_PRODUCER, EncodedRecord, ShardOutput, Write
from catchment.coordination.share_state.batches import (
    ACKNOWLEDGED,
    ARCHIVED,
    AVAILABLE,
    NO_START,
    StateBatch,
    combine,
    merge,
)
from catchment.coordination.share_state.records import (
    NO_COUNT,
    ShareKey,
    ShareState,
    Update,
    decode_record,
    snapshot_record,
    tombstone,
    update_record,
)
from catchment.coordination.timers import Moment
from catchment.protocol.errors import ApiError

Reply = Callable[[ErrorCode], None]

_ANY_EPOCH: Final = -1
_STATES: Final = frozenset((AVAILABLE, ACKNOWLEDGED, ARCHIVED))
_TOMBSTONES_A_WRITE: Final = 500
_UNINITIALIZED: Final = ShareState(0, 0, 0, NO_START, 0, 0, ())


class ShareStateShard:
    __slots__ = ("_has_partition", "_output", "_updates_per_snapshot", "states")

    def __init__(self, updates_per_snapshot: int, has_partition: Callable[[UUID, int], bool]) -> None:
        """`has_partition` says whether a topic of this id has such a partition."""
        self.states = ShareStates()
        self._updates_per_snapshot = updates_per_snapshot
        self._has_partition = has_partition
        self._output = ShardOutput()

    @property
    def next_deadline_ms(self) -> int | None:
        return self._output.timers.next_deadline_ms

    def take_writes(self) -> list[Write]:
        return self._output.take_writes()

    def replay(self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER) -> None:
        """Take on what the record says; nothing in this topic belongs to a transaction."""
        self.states.replay(key, value)

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        return

    def loaded(self, now: Moment) -> None:
        """Forget the states of topics that went while nobody looked after them."""
        self.delete_topics({key.topic_id for key in self.states if not self._has_partition(key.topic_id, 0)})

    def run_timers(self, now: Moment) -> None:
        self._output.timers.run_due(now)

    def close(self, error: ErrorCode) -> None:
        """Nobody waits for anything but a write, and whoever runs the shard answers those."""
        return

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int, reply: Reply, now: Moment) -> None:
        """Begin anew at an offset, or with -1 where the partition's leader finds that the group has to begin."""
        state = self.states.get(key)
        if state is not None and state_epoch != _ANY_EPOCH and state_epoch < state.state_epoch:
            raise ApiError(ErrorCode.fenced_state_epoch)
        self._check_partition(key)
        if start_offset < NO_START:
            raise ApiError(ErrorCode.invalid_request, f"The start offset {start_offset} is negative.")
        fresh = ShareState(
            snapshot_epoch=0 if state is None else state.snapshot_epoch + 1,
            state_epoch=state_epoch,
            # The log before this snapshot may be cut off, and an old leader must be fenced all the same.
            leader_epoch=0 if state is None else state.leader_epoch,
            start_offset=start_offset,
            create_time_ms=now.wall_ms,
            write_time_ms=now.wall_ms,
            batches=(),
            delivery_complete_count=NO_COUNT if start_offset == NO_START else 0,
        )
        self._write([snapshot_record(key, fresh)], reply)

    def read(self, key: ShareKey, leader_epoch: int, now: Moment) -> ShareState:
        """The state, and from now on no leader older than this one may write; it counts once that is safe in the log."""
        state = self._initialized(key, leader_epoch)
        self._check_partition(key)
        if leader_epoch not in (_ANY_EPOCH, state.leader_epoch):
            unchanged = Update(state.snapshot_epoch, leader_epoch, NO_START, (), state.delivery_complete_count)
            self._output.write([self._change(key, state, unchanged, now)])
        return state

    def summary(self, key: ShareKey) -> ShareState:
        """The state as it is; where there is none, one that says so by its start offset."""
        self._check_partition(key)
        return self.states.get(key) or _UNINITIALIZED

    def write(
        self,
        key: ShareKey,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        batches: Sequence[StateBatch],
        delivery_complete_count: int,
        reply: Reply,
        now: Moment,
    ) -> None:
        """Take on what has happened to records; with -1 the start stays where it is."""
        state = self._initialized(key, leader_epoch)
        if state_epoch != _ANY_EPOCH and state_epoch < state.state_epoch:
            raise ApiError(ErrorCode.fenced_state_epoch)
        self._check_partition(key)
        if start_offset < NO_START or not all(map(_is_sound, batches)):
            raise ApiError(ErrorCode.invalid_request, "A state batch or the start offset is out of range.")
        update = Update(
            state.snapshot_epoch,
            state.leader_epoch,
            start_offset,
            combine(batches, start_offset),
            delivery_complete_count,
        )
        self._write([self._change(key, state, update, now)], reply)

    def delete(self, key: ShareKey, reply: Reply) -> None:
        """Forget the state; to forget what is not there is no mistake."""
        self._check_partition(key)
        if self.states.get(key) is None:
            reply(ErrorCode.none)
            return
        self._write([tombstone(key)], reply)

    def delete_topics(self, topic_ids: AbstractSet[UUID]) -> None:
        """Forget the states of topics that are gone."""
        records = [tombstone(key) for key in self.states if key.topic_id in topic_ids]
        for start in range(0, len(records), _TOMBSTONES_A_WRITE):
            self._output.write(records[start : start + _TOMBSTONES_A_WRITE])

    def snapshot_cold(self, age_ms: int, now: Moment) -> None:
        """Write anew what was last written whole so long ago that it holds up cutting off the log, if anything is to be won."""
        if self.states.redundant_count <= 0:
            return
        for key in self.states:
            state = self.states.get(key)
            if state is not None and now.wall_ms - state.write_time_ms >= age_ms:
                anew = state._replace(snapshot_epoch=state.snapshot_epoch + 1, write_time_ms=now.wall_ms)
                self._output.write([snapshot_record(key, anew)])

    def _initialized(self, key: ShareKey, leader_epoch: int) -> ShareState:
        _check_number(key)
        state = self.states.get(key)
        if state is None:
            raise ApiError(ErrorCode.invalid_request, "The state of this share partition has not been set up.")
        if leader_epoch != _ANY_EPOCH and leader_epoch < state.leader_epoch:
            raise ApiError(ErrorCode.fenced_leader_epoch)
        return state

    def _check_partition(self, key: ShareKey) -> None:
        _check_number(key)
        if not self._has_partition(key.topic_id, key.partition):
            raise ApiError(ErrorCode.unknown_topic_or_partition)

    def _change(self, key: ShareKey, state: ShareState, update: Update, now: Moment) -> EncodedRecord:
        if self.states.update_count(key) < self._updates_per_snapshot:
            return update_record(key, update)
        changed = self.states.updated(state, update)
        return snapshot_record(
            key,
            changed._replace(
                snapshot_epoch=state.snapshot_epoch + 1, create_time_ms=now.wall_ms, write_time_ms=now.wall_ms
            ),
        )

    def _write(self, records: list[EncodedRecord], reply: Reply) -> None:
        self._output.write(records, committed=lambda _: reply(ErrorCode.none), failed=lambda error, _: reply(error))


def _check_number(key: ShareKey) -> None:
    if key.partition < 0:
        raise ApiError(ErrorCode.invalid_request, "There are no partitions below 0.")


def _is_sound(batch: StateBatch) -> bool:
    return (
        0 <= batch.first_offset <= batch.last_offset and batch.delivery_state in _STATES and batch.delivery_count >= 0
    )


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
