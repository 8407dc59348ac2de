"""The values of share groups' records in `__consumer_offsets`, in Kafka's own formats.

Keys, targets and their epochs look like those of consumer groups and are written by the same functions.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Iterator, Mapping
from typing import Final
from uuid import UUID

from catchment.coordination.replayed import UnreadableRecord
from catchment.coordination.share_groups.group import (
    ShareAssignment,
    ShareMember,
    StatePartitions,
    StateTopic,
)
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.wire import NO_TAGS, WireReader, array_length, nullable_string, string

_VERSION: Final = b"\x00\x00"
_EPOCH: Final = struct.Struct(">iq")
_EPOCHS_AND_STATE: Final = struct.Struct(">iib")
_I32_BYTES: Final = 4
_SMALLEST_TOPIC_BYTES: Final = 18
_STABLE: Final = 0
"""The one state that a member of a share group can be in."""


def encode_epoch(epoch: int, metadata_hash: int) -> bytes:
    return _VERSION + _EPOCH.pack(epoch, metadata_hash) + NO_TAGS


def decode_epoch(value: bytes) -> tuple[int, int]:
    """The group's epoch, and the hash of the topics that it was made for."""
    with _reading(value, "the epoch of a share group") as reader:
        epoch, metadata_hash = reader.unpack(_EPOCH)
        return epoch, metadata_hash


def encode_member(member: ShareMember) -> bytes:
    return b"".join(
        (
            _VERSION,
            nullable_string(member.rack_id, flexible=True),
            string(member.client_id, flexible=True),
            string(member.client_host, flexible=True),
            array_length(len(member.topics), flexible=True),
            *(string(name, flexible=True) for name in member.topics),
            NO_TAGS,
        )
    )


def decode_member(value: bytes) -> ShareMember:
    with _reading(value, "a member of a share group") as reader:
        rack_id, client_id, client_host = reader.nullable_string(), reader.string(), reader.string()
        topics = tuple([reader.string() for _ in range(reader.array_length(1))])
        return ShareMember(rack_id, client_id, client_host, topics)


def encode_current(current: ShareAssignment) -> bytes:
    pieces = [
        _VERSION,
        _EPOCHS_AND_STATE.pack(current.epoch, current.previous_epoch, _STABLE),
        array_length(len(current.assigned), flexible=True),
    ]
    for topic_id in sorted(current.assigned):
        pieces += (topic_id.bytes, _numbers(current.assigned[topic_id]), NO_TAGS)
    return b"".join((*pieces, NO_TAGS))


def decode_current(value: bytes) -> ShareAssignment:
    with _reading(value, "an assignment of a share group") as reader:
        epoch, previous_epoch, _ = reader.unpack(_EPOCHS_AND_STATE)
        assigned: dict[UUID, frozenset[int]] = {}
        for _ in range(reader.array_length(_SMALLEST_TOPIC_BYTES)):
            topic_id = reader.uuid()
            assigned[topic_id] = _read_numbers(reader)
            reader.skip_tags()
        return ShareAssignment(epoch, previous_epoch, assigned)


def encode_partitions(partitions: StatePartitions) -> bytes:
    deleting = [
        topic_id.bytes + string(name, flexible=True) + NO_TAGS for topic_id, name in sorted(partitions.deleting.items())
    ]
    return b"".join(
        (
            _VERSION,
            _topics(partitions.initializing),
            _topics(partitions.initialized),
            array_length(len(deleting), flexible=True),
            *deleting,
            NO_TAGS,
        )
    )


def decode_partitions(value: bytes) -> StatePartitions:
    with _reading(value, "the partitions of a share group") as reader:
        initializing, initialized = _read_topics(reader), _read_topics(reader)
        deleting: dict[UUID, str] = {}
        for _ in range(reader.array_length(_SMALLEST_TOPIC_BYTES)):
            topic_id = reader.uuid()
            deleting[topic_id] = reader.string()
            reader.skip_tags()
        return StatePartitions(initializing, initialized, deleting)


@contextlib.contextmanager
def _reading(value: bytes, what: str) -> Iterator[WireReader]:
    """A reader of a value's fields; whatever cannot be read is an unreadable record."""
    if value[: len(_VERSION)] != _VERSION:
        raise UnreadableRecord(f"{what} in a version that is not known")
    try:
        yield WireReader(memoryview(value), len(_VERSION), flexible=True)
    except MalformedRequest as error:
        raise UnreadableRecord(f"{what}: {error}") from error


def _numbers(numbers: frozenset[int]) -> bytes:
    return array_length(len(numbers), flexible=True) + struct.pack(f">{len(numbers)}i", *sorted(numbers))


def _read_numbers(reader: WireReader) -> frozenset[int]:
    return frozenset([reader.i32() for _ in range(reader.array_length(_I32_BYTES))])


def _topics(topics: Mapping[UUID, StateTopic]) -> bytes:
    pieces = [array_length(len(topics), flexible=True)]
    for topic_id, topic in sorted(topics.items()):
        pieces += (topic_id.bytes, string(topic.name, flexible=True), _numbers(topic.partitions), NO_TAGS)
    return b"".join(pieces)


def _read_topics(reader: WireReader) -> dict[UUID, StateTopic]:
    topics: dict[UUID, StateTopic] = {}
    for _ in range(reader.array_length(_SMALLEST_TOPIC_BYTES)):
        topic_id = reader.uuid()
        topics[topic_id] = StateTopic(reader.string(), _read_numbers(reader))
        reader.skip_tags()
    return topics
