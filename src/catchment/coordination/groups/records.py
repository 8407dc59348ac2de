"""The records of `__consumer_offsets`, in Kafka's own formats: committed offsets and classic groups.

A key begins with its version: 0 and 1 are committed offsets, 2 is a classic group. A null value is a tombstone. We write what
Kafka 4 writes (offset keys 1, values 3) and read all earlier versions. Keys of other kinds, such as those of consumer groups
(KIP-848), decode to None.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from catchment.coordination.coordinator_shard import UnreadableRecord
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.wire import WireReader, nullable_string, string

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")
_TIMEOUTS: Final = struct.Struct(">ii")

_OFFSET_KEY_VERSION: Final = 1
_GROUP_KEY_VERSION: Final = 2
_OFFSET_VALUE_VERSION: Final = 3
_GROUP_VALUE_VERSION: Final = 3
_NEWEST_VALUE_VERSION: Final = 4
_FIRST_FLEXIBLE_VERSION: Final = 4
_SMALLEST_MEMBER_BYTES: Final = 8

NO_EPOCH: Final = -1
NO_TIME: Final = -1


class OffsetKey(NamedTuple):
    group_id: str
    topic: str
    partition: int


class GroupKey(NamedTuple):
    group_id: str


class OffsetToCommit(NamedTuple):
    topic: str
    partition: int
    offset: int
    leader_epoch: int
    metadata: str


class CommittedOffset(NamedTuple):
    offset: int
    leader_epoch: int
    metadata: str
    commit_time_ms: int
    expire_time_ms: int = NO_TIME
    """Clients before Kafka 2.1 could set a retention for each offset. It is read from old records, and not written any more."""


class MemberRecord(NamedTuple):
    member_id: str
    instance_id: str | None
    client_id: str
    client_host: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: bytes
    assignment: bytes


class GroupRecord(NamedTuple):
    protocol_type: str
    generation: int
    protocol_name: str | None
    leader_id: str | None
    state_time_ms: int
    members: tuple[MemberRecord, ...]


def encode_offset_key(key: OffsetKey) -> bytes:
    return (
        _I16.pack(_OFFSET_KEY_VERSION)
        + string(key.group_id, flexible=False)
        + string(key.topic, flexible=False)
        + _I32.pack(key.partition)
    )


def encode_group_key(key: GroupKey) -> bytes:
    return _I16.pack(_GROUP_KEY_VERSION) + string(key.group_id, flexible=False)


def encode_offset(committed: CommittedOffset) -> bytes:
    return b"".join(
        (
            _I16.pack(_OFFSET_VALUE_VERSION),
            _I64.pack(committed.offset),
            _I32.pack(committed.leader_epoch),
            string(committed.metadata, flexible=False),
            _I64.pack(committed.commit_time_ms),
        )
    )


def encode_group(group: GroupRecord) -> bytes:
    pieces = [
        _I16.pack(_GROUP_VALUE_VERSION),
        string(group.protocol_type, flexible=False),
        _I32.pack(group.generation),
        nullable_string(group.protocol_name, flexible=False),
        nullable_string(group.leader_id, flexible=False),
        _I64.pack(group.state_time_ms),
        _I32.pack(len(group.members)),
    ]
    for member in group.members:
        pieces += (
            string(member.member_id, flexible=False),
            nullable_string(member.instance_id, flexible=False),
            string(member.client_id, flexible=False),
            string(member.client_host, flexible=False),
            _TIMEOUTS.pack(member.rebalance_timeout_ms, member.session_timeout_ms),
            _I32.pack(len(member.subscription)),
            member.subscription,
            _I32.pack(len(member.assignment)),
            member.assignment,
        )
    return b"".join(pieces)


def decode_key(key: bytes) -> OffsetKey | GroupKey | None:
    """The offset or the group that the record is about; None for other kinds of records."""
    reader = WireReader(memoryview(key), 0, flexible=False)
    try:
        version = reader.i16()
        if version <= _OFFSET_KEY_VERSION:
            return OffsetKey(reader.string(), reader.string(), reader.i32())
        return GroupKey(reader.string()) if version == _GROUP_KEY_VERSION else None
    except MalformedRequest as error:
        raise UnreadableRecord(f"a key of a coordinator record: {error}") from error


def decode_offset(value: bytes) -> CommittedOffset:
    try:
        version, reader = _value_reader(value)
        offset = reader.i64()
        leader_epoch = reader.i32() if version >= 3 else NO_EPOCH
        metadata = reader.string()
        commit_time_ms = reader.i64()
        expire_time_ms = reader.i64() if version == 1 else NO_TIME
    except MalformedRequest as error:
        raise UnreadableRecord(f"a committed offset: {error}") from error
    return CommittedOffset(offset, leader_epoch, metadata, commit_time_ms, expire_time_ms)


def decode_group(value: bytes) -> GroupRecord:
    try:
        version, reader = _value_reader(value)
        protocol_type = reader.string()
        generation = reader.i32()
        protocol_name, leader_id = reader.nullable_string(), reader.nullable_string()
        state_time_ms = reader.i64() if version >= 2 else NO_TIME
        members = tuple([_member(reader, version) for _ in range(reader.array_length(_SMALLEST_MEMBER_BYTES))])
    except MalformedRequest as error:
        raise UnreadableRecord(f"a group: {error}") from error
    return GroupRecord(protocol_type, generation, protocol_name, leader_id, state_time_ms, members)


def _value_reader(value: bytes) -> tuple[int, WireReader]:
    (version,) = _I16.unpack_from(value) if len(value) >= _I16.size else (-1,)
    if not 0 <= version <= _NEWEST_VALUE_VERSION:
        raise UnreadableRecord(f"a value of version {version}")
    return version, WireReader(memoryview(value), _I16.size, flexible=version >= _FIRST_FLEXIBLE_VERSION)


def _member(reader: WireReader, version: int) -> MemberRecord:
    member_id = reader.string()
    instance_id = reader.nullable_string() if version >= 3 else None
    client_id, client_host = reader.string(), reader.string()
    rebalance_timeout_ms = reader.i32() if version >= 1 else NO_TIME
    session_timeout_ms = reader.i32()
    subscription, assignment = reader.nullable_bytes(), reader.nullable_bytes()
    reader.skip_tags()
    return MemberRecord(
        member_id,
        instance_id,
        client_id,
        client_host,
        session_timeout_ms if rebalance_timeout_ms == NO_TIME else rebalance_timeout_ms,
        session_timeout_ms,
        bytes(subscription or b""),
        bytes(assignment or b""),
    )
