"""Produce (key 0) on the wire, versions 3–13, without copying a batch.

Requests carry topics by name up to version 12 and by id from 13 on; the answer names them the same way.
The records of a decoded request are views into the frame: they live only as long as its buffer does.
"""

import struct
from typing import NamedTuple
from uuid import UUID

from catchment.protocol import wire
from catchment.protocol.wire import WireReader

API_KEY = 0
FIRST_FLEXIBLE = 9
FIRST_WITH_TOPIC_IDS = 13

_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_ANSWER = struct.Struct(">ihqq")
_ANSWER_WITH_START = struct.Struct(">ihqqq")
_I32 = struct.Struct(">i")
_LEADER = struct.Struct(">iib")

TopicKey = str | UUID


class PartitionData(NamedTuple):
    partition: int
    records: memoryview | None


class TopicData(NamedTuple):
    topic: TopicKey
    partitions: list[PartitionData]


class ProduceRequest(NamedTuple):
    transactional_id: str | None
    acks: int
    timeout_ms: int
    topics: list[TopicData]


class PartitionAnswer(NamedTuple):
    partition: int
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None
    """Leader id and epoch, where the error is that another broker leads."""


class TopicAnswer(NamedTuple):
    topic: TopicKey
    partitions: list[PartitionAnswer]


def decode_request(data: memoryview, position: int, version: int) -> ProduceRequest:
    reader = WireReader(data, position, flexible=version >= FIRST_FLEXIBLE)
    transactional_id = reader.nullable_string()
    acks, timeout_ms = reader.unpack(_ACKS_AND_TIMEOUT)
    topics = []
    for _ in range(reader.array_length(3)):
        topic: TopicKey = reader.uuid() if version >= FIRST_WITH_TOPIC_IDS else reader.string()
        partitions = []
        for _ in range(reader.array_length(5)):
            partitions.append(PartitionData(reader.i32(), reader.nullable_bytes()))
            reader.skip_tags()
        reader.skip_tags()
        topics.append(TopicData(topic, partitions))
    reader.skip_tags()
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def encode_response(topics: list[TopicAnswer], version: int, throttle_time_ms: int = 0) -> bytes:
    flexible = version >= FIRST_FLEXIBLE
    pieces = [wire.array_length(len(topics), flexible=flexible)]
    for topic in topics:
        key = topic.topic
        pieces.append(key.bytes if isinstance(key, UUID) else wire.string(key, flexible=flexible))
        pieces.append(wire.array_length(len(topic.partitions), flexible=flexible))
        pieces += [_partition(answer, version) for answer in topic.partitions]
        if flexible:
            pieces.append(wire.NO_TAGS)
    pieces.append(_I32.pack(throttle_time_ms))
    if flexible:
        pieces.append(wire.NO_TAGS)
    return b"".join(pieces)


def _partition(answer: PartitionAnswer, version: int) -> bytes:
    if version < 5:
        return _ANSWER.pack(*answer[:4])
    encoded = _ANSWER_WITH_START.pack(*answer[:5])
    if version < 8:
        return encoded
    flexible = version >= FIRST_FLEXIBLE
    encoded += wire.array_length(0, flexible=flexible) + wire.nullable_string(answer.error_message, flexible=flexible)
    if not flexible:
        return encoded
    if version >= 10 and answer.current_leader is not None:
        return encoded + wire.tagged_fields({0: _LEADER.pack(*answer.current_leader, 0)})
    return encoded + wire.NO_TAGS
