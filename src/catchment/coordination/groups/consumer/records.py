"""The records of consumer groups in `__consumer_offsets`, in Kafka's own formats.

The key versions are 3 for the group epoch, 5 for member metadata, 6 for the epoch of the target assignment, 7 for a member's
target, 8 for its current assignment, and 16 for a regular expression. Kafka wrote 4 before version 4.1: it is ignored.
"""

from __future__ import annotations

import struct
from typing import Final

from catchment.coordination.coordinator_shard import UnreadableRecord
from catchment.coordination.groups.consumer.group import (
    REGEX_KEY,
    AssignedPartitions,
    ConsumerGroup,
    CurrentAssignment,
    MemberState,
    ResolvedRegex,
)
from catchment.coordination.groups.modern import (
    ClassicProtocol,
    MemberMetadata,
    ModernDraft,
    ModernGroups,
    RecordFormats,
)
from catchment.coordination.groups.modern_records import (
    EPOCHS_AND_STATE,
    VERSION,
    ValueReader,
    encode_names,
    encode_numbers,
    encode_topics,
    read_names,
    read_tags,
    read_topics,
)
from catchment.coordination.groups.state import ShardState
from catchment.protocol.wire import (
    NO_TAGS,
    WireReader,
    array_length,
    nullable_string,
    string,
    tagged_fields,
    unsigned_varint,
)

_NO_EPOCH: Final = 0
_PRESENT: Final = b"\x01"
"""The first byte of a nullable structure that is not null."""
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")


def encode_epoch(epoch: int, metadata_hash: int) -> bytes:
    tags = {0: _I64.pack(metadata_hash)} if metadata_hash else {}
    return VERSION + _I32.pack(epoch) + tagged_fields(tags)


def decode_epoch(value: bytes) -> tuple[int, int]:
    """The group epoch, and the hash of the topics that it was computed for."""
    with ValueReader(value, "the epoch of a group") as reader:
        epoch = reader.i32()
        tags = read_tags(reader)
        return epoch, _I64.unpack(tags[0])[0] if 0 in tags else 0


def encode_member(member: MemberMetadata) -> bytes:
    tags: dict[int, bytes] = {}
    if member.classic is not None:
        protocols = [
            string(name, flexible=True) + unsigned_varint(len(metadata) + 1) + metadata + NO_TAGS
            for name, metadata in member.classic.protocols
        ]
        tags[0] = b"".join(
            (
                _PRESENT,
                _I32.pack(member.classic.session_timeout_ms),
                array_length(len(protocols), flexible=True),
                *protocols,
                NO_TAGS,
            )
        )
    return b"".join(
        (
            VERSION,
            nullable_string(member.instance_id, flexible=True),
            nullable_string(member.rack_id, flexible=True),
            string(member.client_id, flexible=True),
            string(member.client_host, flexible=True),
            encode_names(member.topics),
            nullable_string(member.regex, flexible=True),
            _I32.pack(member.rebalance_timeout_ms),
            nullable_string(member.assignor, flexible=True),
            tagged_fields(tags),
        )
    )


def decode_member(value: bytes) -> MemberMetadata:
    with ValueReader(value, "a member") as reader:
        instance_id, rack_id = reader.nullable_string(), reader.nullable_string()
        client_id, client_host = reader.string(), reader.string()
        topics = read_names(reader)
        regex = reader.nullable_string()
        rebalance_timeout_ms = reader.i32()
        assignor = reader.nullable_string()
        classic = read_tags(reader).get(0)
        return MemberMetadata(
            instance_id,
            rack_id,
            client_id,
            client_host,
            topics,
            regex,
            rebalance_timeout_ms,
            assignor,
            None if classic is None else _classic(classic),
        )


def encode_current(current: CurrentAssignment) -> bytes:
    return b"".join(
        (
            VERSION,
            EPOCHS_AND_STATE.pack(current.epoch, current.previous_epoch, current.state),
            _partitions(current.assigned),
            _partitions(current.revoking),
            NO_TAGS,
        )
    )


def decode_current(value: bytes) -> CurrentAssignment:
    with ValueReader(value, "an assignment") as reader:
        epoch, previous_epoch, state = reader.unpack(EPOCHS_AND_STATE)
        try:
            known = MemberState(state)
        except ValueError as error:
            raise UnreadableRecord(f"an assignment in the unknown state {state}") from error
        return CurrentAssignment(epoch, previous_epoch, known, _read_partitions(reader), _read_partitions(reader))


def encode_regex(resolved: ResolvedRegex) -> bytes:
    return VERSION + encode_names(resolved.topics) + _I64.pack(resolved.version) + _I64.pack(resolved.time_ms) + NO_TAGS


def decode_regex(value: bytes) -> ResolvedRegex:
    with ValueReader(value, "a regular expression") as reader:
        return ResolvedRegex(read_names(reader), reader.i64(), reader.i64())


def _partitions(partitions: AssignedPartitions) -> bytes:
    numbers = {topic_id: sorted(epochs) for topic_id, epochs in partitions.items()}
    tags = {
        topic_id: tagged_fields({0: encode_numbers([partitions[topic_id][number] for number in topic])})
        for topic_id, topic in numbers.items()
    }
    return encode_topics(numbers, tags)


def _read_partitions(reader: WireReader) -> AssignedPartitions:
    return {
        topic_id: dict(zip(numbers, epochs or [_NO_EPOCH] * len(numbers), strict=False))
        for topic_id, numbers, epochs in read_topics(reader)
    }


def _classic(data: memoryview) -> ClassicProtocol | None:
    if bytes(data[:1]) != _PRESENT:
        return None
    reader = WireReader(data, len(_PRESENT), flexible=True)
    session_timeout_ms = reader.i32()
    protocols = []
    for _ in range(reader.array_length(3)):
        name, metadata = reader.string(), reader.nullable_bytes()
        reader.skip_tags()
        protocols.append((name, bytes(metadata or b"")))
    return ClassicProtocol(session_timeout_ms, tuple(protocols))


_FORMATS: Final = RecordFormats(
    encode_epoch, decode_epoch, encode_member, decode_member, encode_current, decode_current
)


class ConsumerGroups(ModernGroups[ConsumerGroup]):
    """The consumer groups of a shard, as their records describe them."""

    __slots__ = ()

    def __init__(self, state: ShardState) -> None:
        super().__init__(state, ConsumerGroup, _FORMATS)
        self.add_replayer(REGEX_KEY, _replay_regex)


class Draft(ModernDraft[ConsumerGroup, CurrentAssignment]):
    __slots__ = ()

    formats = _FORMATS

    def put_regex(self, regex: str, resolved: ResolvedRegex | None) -> None:
        value = None if resolved is None else encode_regex(resolved)
        self.change(REGEX_KEY, regex, value).set_regex(regex, resolved)


def _replay_regex(group: ConsumerGroup, regex: str, value: bytes | None) -> None:
    group.set_regex(regex, None if value is None else decode_regex(value))
