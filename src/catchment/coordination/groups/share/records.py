"""The records of share groups in `__consumer_offsets`, in Kafka's own formats.

Keys, targets and target epochs have the formats of consumer groups and are written by the same functions.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Final
from uuid import UUID

from catchment.coordination.groups.modern import MemberMetadata, ModernDraft, ModernGroups, RecordFormats
from catchment.coordination.groups.modern_records import (
    EPOCHS_AND_STATE,
    SMALLEST_TOPIC_BYTES,
    VERSION,
    ValueReader,
    encode_names,
    encode_numbers,
    read_names,
    read_numbers,
)
from catchment.coordination.groups.share.group import (
    PARTITIONS_KEY,
    ShareAssignment,
    ShareGroup,
    StatePartitions,
    StateTopic,
)
from catchment.coordination.groups.state import ShardState
from catchment.protocol.wire import NO_TAGS, WireReader, array_length, nullable_string, string

_EPOCH: Final = struct.Struct(">iq")
_STABLE: Final = 0
"""The only state of a member of a share group."""


def encode_epoch(epoch: int, metadata_hash: int) -> bytes:
    return VERSION + _EPOCH.pack(epoch, metadata_hash) + NO_TAGS


def decode_epoch(value: bytes) -> tuple[int, int]:
    """The group epoch, and the hash of the topics that it was computed for."""
    with ValueReader(value, "the epoch of a share group") as reader:
        epoch, metadata_hash = reader.unpack(_EPOCH)
        return epoch, metadata_hash


def encode_member(member: MemberMetadata) -> bytes:
    return b"".join(
        (
            VERSION,
            nullable_string(member.rack_id, flexible=True),
            string(member.client_id, flexible=True),
            string(member.client_host, flexible=True),
            encode_names(member.topics),
            NO_TAGS,
        )
    )


def decode_member(value: bytes) -> MemberMetadata:
    with ValueReader(value, "a member of a share group") as reader:
        rack_id, client_id, client_host = reader.nullable_string(), reader.string(), reader.string()
        return MemberMetadata(rack_id=rack_id, client_id=client_id, client_host=client_host, topics=read_names(reader))


def encode_current(current: ShareAssignment) -> bytes:
    pieces = [
        VERSION,
        EPOCHS_AND_STATE.pack(current.epoch, current.previous_epoch, _STABLE),
        array_length(len(current.assigned), flexible=True),
    ]
    for topic_id in sorted(current.assigned):
        pieces += (topic_id.bytes, encode_numbers(sorted(current.assigned[topic_id])), NO_TAGS)
    return b"".join((*pieces, NO_TAGS))


def decode_current(value: bytes) -> ShareAssignment:
    with ValueReader(value, "an assignment of a share group") as reader:
        epoch, previous_epoch, _ = reader.unpack(EPOCHS_AND_STATE)
        assigned: dict[UUID, frozenset[int]] = {}
        for _ in range(reader.array_length(SMALLEST_TOPIC_BYTES)):
            topic_id = reader.uuid()
            assigned[topic_id] = frozenset(read_numbers(reader))
            reader.skip_tags()
        return ShareAssignment(epoch, previous_epoch, assigned)


def encode_partitions(partitions: StatePartitions) -> bytes:
    deleting = [
        topic_id.bytes + string(name, flexible=True) + NO_TAGS for topic_id, name in sorted(partitions.deleting.items())
    ]
    return b"".join(
        (
            VERSION,
            _topics(partitions.initializing),
            _topics(partitions.initialized),
            array_length(len(deleting), flexible=True),
            *deleting,
            NO_TAGS,
        )
    )


def decode_partitions(value: bytes) -> StatePartitions:
    with ValueReader(value, "the partitions of a share group") as reader:
        initializing, initialized = _read_topics(reader), _read_topics(reader)
        deleting: dict[UUID, str] = {}
        for _ in range(reader.array_length(SMALLEST_TOPIC_BYTES)):
            topic_id = reader.uuid()
            deleting[topic_id] = reader.string()
            reader.skip_tags()
        return StatePartitions(initializing, initialized, deleting)


def _topics(topics: Mapping[UUID, StateTopic]) -> bytes:
    pieces = [array_length(len(topics), flexible=True)]
    for topic_id, topic in sorted(topics.items()):
        pieces += (topic_id.bytes, string(topic.name, flexible=True), encode_numbers(sorted(topic.partitions)), NO_TAGS)
    return b"".join(pieces)


def _read_topics(reader: WireReader) -> dict[UUID, StateTopic]:
    topics: dict[UUID, StateTopic] = {}
    for _ in range(reader.array_length(SMALLEST_TOPIC_BYTES)):
        topic_id = reader.uuid()
        topics[topic_id] = StateTopic(reader.string(), frozenset(read_numbers(reader)))
        reader.skip_tags()
    return topics


_FORMATS: Final = RecordFormats(
    encode_epoch, decode_epoch, encode_member, decode_member, encode_current, decode_current
)


class ShareGroups(ModernGroups[ShareGroup]):
    """The share groups of a shard, as their records describe them."""

    __slots__ = ()

    def __init__(self, state: ShardState) -> None:
        super().__init__(state, ShareGroup, _FORMATS)
        self.add_replayer(PARTITIONS_KEY, _replay_partitions)


class Draft(ModernDraft[ShareGroup, ShareAssignment]):
    __slots__ = ()

    formats = _FORMATS

    def put_partitions(self, partitions: StatePartitions) -> None:
        self.change(PARTITIONS_KEY, None, encode_partitions(partitions)).partitions = partitions

    def remove_member(self, member_id: str) -> None:
        """Delete the member, and let the next heartbeat assign what it had."""
        super().remove_member(member_id)
        self.put_epoch(self.group.epoch + 1, self.group.metadata_hash)


def _replay_partitions(group: ShareGroup, _: str, value: bytes | None) -> None:
    group.partitions = StatePartitions() if value is None else decode_partitions(value)
