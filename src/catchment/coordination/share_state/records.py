"""The records of `__share_group_state`, in Kafka's own formats: snapshots and updates of one share-partition's state.

A key begins with its version: 0 is a snapshot, which holds all of the state, 1 is an update, which holds the changes since the
last snapshot. A null snapshot is a tombstone. Keys of other versions decode to None.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple
from uuid import UUID

from catchment.coordination.coordinator_shard import EncodedRecord, UnreadableRecord
from catchment.coordination.share_state.batches import AVAILABLE, StateBatch
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.wire import NO_TAGS, WireReader, array_length, string, tagged_fields

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_SNAPSHOT: Final = struct.Struct(">hiiiqqq")
_UPDATE: Final = struct.Struct(">hiiq")
_BATCH: Final = struct.Struct(">qqbh")

_SNAPSHOT_KEY: Final = 0
_UPDATE_KEY: Final = 1
_VALUE_VERSION: Final = 0
_COUNT_TAG: Final = 0

NO_COUNT: Final = -1
"""An unknown number of completed deliveries."""


class ShareKey(NamedTuple):
    """A share partition: one partition of one share group."""

    group_id: str
    topic_id: UUID
    partition: int


class ShareState(NamedTuple):
    """All of the state of a share partition, as a snapshot holds it."""

    snapshot_epoch: int
    state_epoch: int
    """The group epoch when the state was initialized. A new initialization fences writes with an older one."""
    leader_epoch: int
    """The leader epoch of the partition: only its newest leader may write."""
    start_offset: int
    """All records before it are processed; -1 while it is not decided yet."""
    create_time_ms: int
    write_time_ms: int
    batches: tuple[StateBatch, ...]
    delivery_complete_count: int = NO_COUNT
    """The number of records after the start offset that need no further delivery."""

    @property
    def done_offset(self) -> int:
        """The offset of the first record that may be delivered again. The next write moves the start offset to it."""
        done = self.start_offset
        for batch in self.batches:
            if batch.first_offset > done or batch.delivery_state == AVAILABLE:
                break
            done = max(done, batch.last_offset + 1)
        return done


class Update(NamedTuple):
    """The changes since the last snapshot or update."""

    snapshot_epoch: int
    leader_epoch: int
    start_offset: int
    """-1 leaves it unchanged."""
    batches: tuple[StateBatch, ...]
    delivery_complete_count: int = NO_COUNT


def snapshot_record(key: ShareKey, state: ShareState) -> EncodedRecord:
    fixed = _SNAPSHOT.pack(_VALUE_VERSION, *state[:6])
    return _key(_SNAPSHOT_KEY, key), fixed + _tail(state.batches, state.delivery_complete_count)


def update_record(key: ShareKey, update: Update) -> EncodedRecord:
    fixed = _UPDATE.pack(_VALUE_VERSION, *update[:3])
    return _key(_UPDATE_KEY, key), fixed + _tail(update.batches, update.delivery_complete_count)


def tombstone(key: ShareKey) -> EncodedRecord:
    return _key(_SNAPSHOT_KEY, key), None


def decode_record(key: bytes, value: bytes | None) -> tuple[ShareKey, ShareState | Update | None] | None:
    """The share partition of the record, and the snapshot or update; None in place of it for a tombstone."""
    try:
        reader = WireReader(memoryview(key), 0, flexible=False)
        kind = reader.i16()
        if kind not in (_SNAPSHOT_KEY, _UPDATE_KEY):
            return None
        share_key = ShareKey(reader.string(), reader.uuid(), reader.i32())
        if value is None:
            return share_key, None
        reader = WireReader(memoryview(value), 0, flexible=True)
        return share_key, _snapshot(reader) if kind == _SNAPSHOT_KEY else _update(reader)
    except MalformedRequest as error:
        raise UnreadableRecord(f"a record of a share group's state: {error}") from error


def _key(kind: int, key: ShareKey) -> bytes:
    return _I16.pack(kind) + string(key.group_id, flexible=False) + key.topic_id.bytes + _I32.pack(key.partition)


def _tail(batches: tuple[StateBatch, ...], delivery_complete_count: int) -> bytes:
    tags = {} if delivery_complete_count == NO_COUNT else {_COUNT_TAG: _I32.pack(delivery_complete_count)}
    encoded = b"".join([_BATCH.pack(*batch) + NO_TAGS for batch in batches])
    return array_length(len(batches), flexible=True) + encoded + tagged_fields(tags)


def _snapshot(reader: WireReader) -> ShareState:
    version, snapshot_epoch, state_epoch, leader_epoch, start_offset, create_ms, write_ms = reader.unpack(_SNAPSHOT)
    batches, count = _read_tail(reader, version)
    return ShareState(snapshot_epoch, state_epoch, leader_epoch, start_offset, create_ms, write_ms, batches, count)


def _update(reader: WireReader) -> Update:
    version, snapshot_epoch, leader_epoch, start_offset = reader.unpack(_UPDATE)
    return Update(snapshot_epoch, leader_epoch, start_offset, *_read_tail(reader, version))


def _read_tail(reader: WireReader, version: int) -> tuple[tuple[StateBatch, ...], int]:
    if version != _VALUE_VERSION:
        raise UnreadableRecord(f"a value of version {version}")
    batches: list[StateBatch] = []
    for _ in range(reader.array_length(_BATCH.size)):
        batches.append(StateBatch(*reader.unpack(_BATCH)))
        reader.skip_tags()
    count = NO_COUNT
    for _ in range(reader.unsigned_varint()):
        tag, content = reader.tag()
        if tag == _COUNT_TAG and len(content) == _I32.size:
            (count,) = _I32.unpack(content)
    return tuple(batches), count
