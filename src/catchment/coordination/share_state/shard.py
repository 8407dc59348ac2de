"""One shard of the share coordinator: the states of share partitions, as its runner uses it.

A state begins with its initialization, and only the newest leader of the partition can change it. Most changes are written as
updates, and every so often as a snapshot, so that loading is fast and older records can be pruned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from typing import Final
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.coordination.coordinator_shard import NO_PRODUCER, EncodedRecord, ShardBase, ShardOutput
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
_MAX_TOMBSTONES_PER_WRITE: Final = 500
_UNINITIALIZED: Final = ShareState(0, 0, 0, NO_START, 0, 0, ())


class ShareStateShard(ShardBase):
    __slots__ = ("_has_partition", "_updates_per_snapshot", "states")

    def __init__(self, updates_per_snapshot: int, has_partition: Callable[[UUID, int], bool]) -> None:
        """`has_partition` returns whether the topic with this id has such a partition."""
        self.states = ShareStates()
        self._updates_per_snapshot = updates_per_snapshot
        self._has_partition = has_partition
        super().__init__(ShardOutput())

    def replay(self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER) -> None:
        """Apply a record. No record of this topic belongs to a transaction."""
        self.states.replay(key, value)

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        return

    def loaded(self, now: Moment) -> None:
        """Delete the states of topics that were deleted while no shard was loaded."""
        self.delete_topics({key.topic_id for key in self.states if not self._has_partition(key.topic_id, 0)})

    def close(self, error: ErrorCode) -> None:
        """Requests wait for writes only, and the runner answers those."""
        return

    def initialize(self, key: ShareKey, state_epoch: int, start_offset: int, reply: Reply, now: Moment) -> None:
        """Initialize the state at an offset. With -1 the leader of the partition decides it later."""
        state = self.states.get(key)
        if state is not None and state_epoch != _ANY_EPOCH and state_epoch < state.state_epoch:
            raise ApiError(ErrorCode.fenced_state_epoch)
        self._check_partition(key)
        if start_offset < NO_START:
            raise ApiError(ErrorCode.invalid_request, f"The start offset {start_offset} is negative.")
        initial = ShareState(
            snapshot_epoch=0 if state is None else state.snapshot_epoch + 1,
            state_epoch=state_epoch,
            # The log before this snapshot may be pruned, and an old leader must be fenced all the same.
            leader_epoch=0 if state is None else state.leader_epoch,
            start_offset=start_offset,
            create_time_ms=now.wall_ms,
            write_time_ms=now.wall_ms,
            batches=(),
            delivery_complete_count=NO_COUNT if start_offset == NO_START else 0,
        )
        self._write([snapshot_record(key, initial)], reply)

    def read(self, key: ShareKey, leader_epoch: int, now: Moment) -> ShareState:
        """Return the state, and fence older leaders; the fence takes effect once it is committed to the log."""
        state = self._initialized(key, leader_epoch)
        self._check_partition(key)
        if leader_epoch not in (_ANY_EPOCH, state.leader_epoch):
            unchanged = Update(state.snapshot_epoch, leader_epoch, NO_START, (), state.delivery_complete_count)
            self._output.write([self._change(key, state, unchanged, now)])
        return state

    def summary(self, key: ShareKey) -> ShareState:
        """The state; its start offset is -1 if there is none."""
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
        """Write the new delivery states of records; -1 leaves the start offset unchanged."""
        state = self._initialized(key, leader_epoch)
        if state_epoch != _ANY_EPOCH and state_epoch < state.state_epoch:
            raise ApiError(ErrorCode.fenced_state_epoch)
        self._check_partition(key)
        if start_offset < NO_START or not all(map(_is_valid, batches)):
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
        """Delete the state. It is no error if there is none."""
        self._check_partition(key)
        if self.states.get(key) is None:
            reply(ErrorCode.none)
            return
        self._write([tombstone(key)], reply)

    def delete_topics(self, topic_ids: AbstractSet[UUID]) -> None:
        """Delete the states of deleted topics."""
        records = [tombstone(key) for key in self.states if key.topic_id in topic_ids]
        for start in range(0, len(records), _MAX_TOMBSTONES_PER_WRITE):
            self._output.write(records[start : start + _MAX_TOMBSTONES_PER_WRITE])

    def snapshot_cold(self, age_ms: int, now: Moment) -> None:
        """Write a new snapshot of the states whose last one is old and blocks pruning, if there is anything to prune."""
        if self.states.redundant_count <= 0:
            return
        for key in self.states:
            state = self.states.get(key)
            if state is not None and now.wall_ms - state.write_time_ms >= age_ms:
                snapshot = state._replace(snapshot_epoch=state.snapshot_epoch + 1, write_time_ms=now.wall_ms)
                self._output.write([snapshot_record(key, snapshot)])

    def _initialized(self, key: ShareKey, leader_epoch: int) -> ShareState:
        _check_number(key)
        state = self.states.get(key)
        if state is None:
            raise ApiError(ErrorCode.invalid_request, "The state of this share partition is not initialized.")
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
        raise ApiError(ErrorCode.invalid_request, "The partition number is negative.")


def _is_valid(batch: StateBatch) -> bool:
    return (
        0 <= batch.first_offset <= batch.last_offset and batch.delivery_state in _STATES and batch.delivery_count >= 0
    )


_NO_EPOCH = -1


class _Entry:
    __slots__ = ("snapshot_number", "state", "update_count")

    def __init__(self, state: ShareState, snapshot_number: int) -> None:
        self.state = state
        self.snapshot_number = snapshot_number
        """The position of the last snapshot among all replayed records."""
        self.update_count = 0
        """The number of updates since then."""


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
        """The number of newest records that hold all states: the records before them can be pruned."""
        oldest = min((entry.snapshot_number for entry in self._entries.values()), default=self._replayed_count)
        return self._replayed_count - oldest

    @property
    def redundant_count(self) -> int:
        """The number of superseded records among the needed ones: they lie after one that is needed."""
        return self.needed_count - sum(1 + entry.update_count for entry in self._entries.values())

    def get(self, key: ShareKey) -> ShareState | None:
        entry = self._entries.get(key)
        return None if entry is None else entry.state

    def update_count(self, key: ShareKey) -> int:
        """The number of updates since the last snapshot."""
        entry = self._entries.get(key)
        return 0 if entry is None else entry.update_count

    def replay(self, key: bytes, value: bytes | None) -> None:
        decoded = decode_record(key, value)
        number = self._replayed_count
        self._replayed_count += 1
        if decoded is None:
            return
        share_key, content = decoded
        if content is None:
            self._entries.pop(share_key, None)
        elif isinstance(content, ShareState):
            self._entries[share_key] = _Entry(content, number)
        else:
            # An update without its snapshot is applied to an empty state, as in Kafka.
            entry = self._entries.setdefault(share_key, _Entry(_before(content), number))
            entry.state = self.updated(entry.state, content)
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
