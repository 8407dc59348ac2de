"""Produce (key 0) on the wire, versions 3–13, without copying a batch.

Topics have names up to version 12 and ids from 13 on, in requests and responses. The records of a decoded request are views
of the frame: they are valid only as long as its buffer.
"""

import struct
from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from catchment.protocol import wire
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.wire import WireReader, read_unsigned_varint

API_KEY = 0
FIRST_FLEXIBLE = 9
FIRST_WITH_TOPIC_IDS = 13

_ACKS_AND_TIMEOUT = struct.Struct(">hi")
_RESPONSE = struct.Struct(">ihqq")
_RESPONSE_WITH_START = struct.Struct(">ihqqq")
_I32 = struct.Struct(">i")
_ONE = 2
"""The length of a compact array is encoded as one more."""
_NO_TAGS_THRICE = b"\x00\x00\x00"
_ONE_GOOD_PARTITION = struct.Struct(">bihqqqbbbbib")
_LEADER = struct.Struct(">iib")
_ANY_NUMBER = 1 << 31

# The memory of a decoded topic and partition: a view of the records, the result, and the response.
_TOPIC_BYTES = 256
_PARTITION_BYTES = 768

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
    is_copy: bool = False
    """Whether the records are views of a copy of the frame, which stays valid."""


class ManyPartitions(Exception):
    """The request has more topics and partitions than may be decoded now."""


class PartitionResponse(NamedTuple):
    partition: int
    error_code: int
    base_offset: int = -1
    log_append_time_ms: int = -1
    log_start_offset: int = -1
    error_message: str | None = None
    current_leader: tuple[int, int] | None = None
    """Leader id and epoch, if the error is that another broker is the leader."""
    record_errors: Sequence[tuple[int, str | None]] = ()
    """The index in the batch of each invalid record, and why (KIP-467)."""


class TopicResponse(NamedTuple):
    topic: TopicKey
    partitions: list[PartitionResponse]


def decode_request(data: memoryview, position: int, version: int, at_most: int = _ANY_NUMBER) -> ProduceRequest:
    """Raises ManyPartitions if there are more than `at_most` topics and partitions."""
    if FIRST_FLEXIBLE <= version < FIRST_WITH_TOPIC_IDS:
        usual = _decode_usual(data, position)
        if usual is not None:
            return usual
    return decode_any(data, position, version, at_most)


def _decode_usual(data: memoryview, position: int) -> ProduceRequest | None:
    """The common form of requests, decoded in a few steps: no transaction, one topic, one partition, no tags.

    None if the request has another form or is malformed: then the general decoder is used.
    """
    try:
        name_size = data[position + 8] - 1
        second = position + 9 + name_size
        if data[position] or data[position + 7] != _ONE or data[second] != _ONE or not 0 < name_size < 0x7F:
            return None
        acks, timeout_ms = _ACKS_AND_TIMEOUT.unpack_from(data, position + 1)
        (partition,) = _I32.unpack_from(data, second + 1)
        size, start = read_unsigned_varint(data, second + 5)
        end = start + size - 1
        if size == 0 or data.nbytes != end + 3 or data[end:] != _NO_TAGS_THRICE:
            return None
        name = str(data[position + 9 : second], "utf-8")
    except (IndexError, ValueError, struct.error, MalformedRequest):
        return None
    return ProduceRequest(None, acks, timeout_ms, [TopicData(name, [PartitionData(partition, data[start:end])])])


def decode_any(data: memoryview, position: int, version: int, at_most: int = _ANY_NUMBER) -> ProduceRequest:
    reader = WireReader(data, position, flexible=version >= FIRST_FLEXIBLE)
    transactional_id = reader.nullable_string()
    acks, timeout_ms = reader.unpack(_ACKS_AND_TIMEOUT)
    topics = []
    for _ in range(reader.array_length(3, _TOPIC_BYTES)):
        topic: TopicKey = reader.uuid() if version >= FIRST_WITH_TOPIC_IDS else reader.string()
        partitions = []
        count = reader.array_length(5, _PARTITION_BYTES)
        at_most -= 1 + count
        if at_most < 0:
            raise ManyPartitions
        for _ in range(count):
            partitions.append(PartitionData(reader.i32(), reader.nullable_bytes()))
            reader.skip_tags()
        reader.skip_tags()
        topics.append(TopicData(topic, partitions))
    reader.skip_tags()
    return ProduceRequest(transactional_id, acks, timeout_ms, topics)


def encode_response(topics: list[TopicResponse], version: int, throttle_time_ms: int = 0) -> bytes:
    flexible = version >= FIRST_FLEXIBLE
    if flexible and len(topics) == 1 and len(topics[0].partitions) == 1:
        response = topics[0].partitions[0]
        if response.error_code == 0:
            return _encode_usual(topics[0].topic, response, throttle_time_ms)
    pieces = [wire.array_length(len(topics), flexible=flexible)]
    for topic in topics:
        key = topic.topic
        pieces.append(key.bytes if isinstance(key, UUID) else wire.string(key, flexible=flexible))
        pieces.append(wire.array_length(len(topic.partitions), flexible=flexible))
        pieces += [_partition(response, version) for response in topic.partitions]
        if flexible:
            pieces.append(wire.NO_TAGS)
    pieces.append(_I32.pack(throttle_time_ms))
    if flexible:
        pieces.append(wire.NO_TAGS)
    return b"".join(pieces)


def _encode_usual(topic: TopicKey, response: PartitionResponse, throttle_time_ms: int) -> bytes:
    """The response for one partition without an error: no record errors, no message, no tags."""
    key = topic.bytes if isinstance(topic, UUID) else wire.string(topic, flexible=True)
    return b"\x02" + key + _ONE_GOOD_PARTITION.pack(_ONE, *response[:5], 1, 0, 0, 0, throttle_time_ms, 0)


def _partition(response: PartitionResponse, version: int) -> bytes:
    if version < 5:
        return _RESPONSE.pack(*response[:4])
    encoded = _RESPONSE_WITH_START.pack(*response[:5])
    if version < 8:
        return encoded
    flexible = version >= FIRST_FLEXIBLE
    encoded += wire.array_length(len(response.record_errors), flexible=flexible)
    for index, message in response.record_errors:
        encoded += _I32.pack(index) + wire.nullable_string(message, flexible=flexible)
        if flexible:
            encoded += wire.NO_TAGS
    encoded += wire.nullable_string(response.error_message, flexible=flexible)
    if not flexible:
        return encoded
    if version >= 10 and response.current_leader is not None:
        return encoded + wire.tagged_fields({0: _LEADER.pack(*response.current_leader, 0)})
    return encoded + wire.NO_TAGS
