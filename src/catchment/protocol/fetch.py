"""Fetch (key 1) on the wire, versions 4–18, with the records of a response as separate pieces.

Topics have names up to version 12 and ids from 13 on, in requests and responses.
"""

import struct
from typing import NamedTuple
from uuid import UUID

from catchment.protocol import wire
from catchment.protocol.produce import TopicKey
from catchment.protocol.wire import Piece, WireReader

API_KEY = 1
FIRST_FLEXIBLE = 12
FIRST_WITH_TOPIC_IDS = 13

CONSUMER = -1
"""The replica id of a client that is not a broker."""
READ_COMMITTED = 1

_LIMITS = struct.Struct(">iiib")
_SESSION = struct.Struct(">ii")
_PARTITION_4 = struct.Struct(">iqi")
_PARTITION_5 = struct.Struct(">iqqi")
_PARTITION_9 = struct.Struct(">iiqqi")
_PARTITION_12 = struct.Struct(">iiqiqi")
_REPLICA_STATE = struct.Struct(">iq")
_THROTTLE = struct.Struct(">i")
_THROTTLE_AND_SESSION = struct.Struct(">ihi")
_RESPONSE_4 = struct.Struct(">ihqq")
_RESPONSE_5 = struct.Struct(">ihqqq")
_I32 = struct.Struct(">i")
_TRANSACTION = struct.Struct(">qq")
_EPOCH_END = struct.Struct(">iqb")
_LEADER = struct.Struct(">iib")
# The memory of a decoded topic and partition.
_TOPIC_BYTES = 256
_PARTITION_BYTES = 256
_NULL_ARRAY = b"\xff\xff\xff\xff"


class PartitionRequest(NamedTuple):
    partition: int
    fetch_offset: int
    max_bytes: int
    log_start_offset: int = -1
    current_leader_epoch: int = -1
    last_fetched_epoch: int = -1


class TopicRequest(NamedTuple):
    topic: TopicKey
    partitions: list[PartitionRequest]


class FetchRequest(NamedTuple):
    replica_id: int
    replica_epoch: int
    max_wait_ms: int
    min_bytes: int
    max_bytes: int
    isolation_level: int
    session_id: int
    session_epoch: int
    topics: list[TopicRequest]
    forgotten: list[tuple[TopicKey, list[int]]]
    rack_id: str
    uses_topic_ids: bool


class PartitionResponse(NamedTuple):
    partition: int
    error_code: int
    high_watermark: int = -1
    last_stable_offset: int = -1
    log_start_offset: int = -1
    aborted: list[tuple[int, int]] | None = None
    """(producer id, first offset) of each aborted transaction; None unless the isolation level is read_committed."""
    preferred_read_replica: int = -1
    records: Piece = b""
    diverging_epoch: tuple[int, int] | None = None
    current_leader: tuple[int, int] | None = None


class TopicResponse(NamedTuple):
    topic: TopicKey
    partitions: list[PartitionResponse]


def decode_request(data: memoryview, position: int, version: int) -> FetchRequest:
    reader = WireReader(data, position, flexible=version >= FIRST_FLEXIBLE)
    replica_id = reader.i32() if version <= 14 else CONSUMER
    max_wait_ms, min_bytes, max_bytes, isolation_level = reader.unpack(_LIMITS)
    session_id, session_epoch = reader.unpack(_SESSION) if version >= 7 else (0, -1)
    topics = [_topic_request(reader, version) for _ in range(reader.array_length(3, _TOPIC_BYTES))]
    forgotten = []
    if version >= 7:
        for _ in range(reader.array_length(3, _TOPIC_BYTES)):
            topic = _topic_key(reader, version)
            forgotten.append((topic, [reader.i32() for _ in range(reader.array_length(4))]))
            reader.skip_tags()
    rack_id = reader.string() if version >= 11 else ""
    replica_epoch = -1
    if reader.flexible:
        for _ in range(reader.tag_count()):
            number, value = reader.tag()
            if number == 1 and version >= 15:
                replica_id, replica_epoch = WireReader(value, 0, flexible=True).unpack(_REPLICA_STATE)
    return FetchRequest(
        replica_id,
        replica_epoch,
        max_wait_ms,
        min_bytes,
        max_bytes,
        isolation_level,
        session_id,
        session_epoch,
        topics,
        forgotten,
        rack_id,
        version >= FIRST_WITH_TOPIC_IDS,
    )


def _topic_key(reader: WireReader, version: int) -> TopicKey:
    return reader.uuid() if version >= FIRST_WITH_TOPIC_IDS else reader.string()


def _topic_request(reader: WireReader, version: int) -> TopicRequest:
    topic = _topic_key(reader, version)
    partitions = []
    for _ in range(reader.array_length(16, _PARTITION_BYTES)):
        partitions.append(_partition_request(reader, version))
        reader.skip_tags()
    reader.skip_tags()
    return TopicRequest(topic, partitions)


def _partition_request(reader: WireReader, version: int) -> PartitionRequest:
    if version >= 12:
        partition, leader_epoch, offset, last_epoch, start, max_bytes = reader.unpack(_PARTITION_12)
        return PartitionRequest(partition, offset, max_bytes, start, leader_epoch, last_epoch)
    if version >= 9:
        partition, leader_epoch, offset, start, max_bytes = reader.unpack(_PARTITION_9)
        return PartitionRequest(partition, offset, max_bytes, start, leader_epoch)
    if version >= 5:
        partition, offset, start, max_bytes = reader.unpack(_PARTITION_5)
        return PartitionRequest(partition, offset, max_bytes, start)
    partition, offset, max_bytes = reader.unpack(_PARTITION_4)
    return PartitionRequest(partition, offset, max_bytes)


def encode_response(
    topics: list[TopicResponse], version: int, *, error_code: int = 0, session_id: int = 0, throttle_time_ms: int = 0
) -> list[Piece]:
    """The body as pieces: small ones joined, each partition's records without a copy."""
    flexible = version >= FIRST_FLEXIBLE
    pieces: list[Piece] = []
    head = bytearray()
    head += (
        _THROTTLE_AND_SESSION.pack(throttle_time_ms, error_code, session_id)
        if version >= 7
        else _THROTTLE.pack(throttle_time_ms)
    )
    head += wire.array_length(len(topics), flexible=flexible)
    for topic in topics:
        key = topic.topic
        head += key.bytes if isinstance(key, UUID) else wire.string(key, flexible=flexible)
        head += wire.array_length(len(topic.partitions), flexible=flexible)
        for response in topic.partitions:
            size = len(response.records)
            head += _partition_head(response, version, size)
            if size:
                pieces += (head, response.records)
                head = bytearray()
            if flexible:
                head += _partition_tags(response)
        if flexible:
            head += wire.NO_TAGS
    if flexible:
        head += wire.NO_TAGS
    if head:
        pieces.append(head)
    return pieces


def _partition_head(response: PartitionResponse, version: int, records_size: int) -> bytes:
    flexible = version >= FIRST_FLEXIBLE
    encoded = _RESPONSE_5.pack(*response[:5]) if version >= 5 else _RESPONSE_4.pack(*response[:4])
    aborted = response.aborted
    if aborted is None:
        encoded += b"\x00" if flexible else _NULL_ARRAY
    else:
        encoded += wire.array_length(len(aborted), flexible=flexible)
        encoded += b"".join(_TRANSACTION.pack(*entry) + (wire.NO_TAGS if flexible else b"") for entry in aborted)
    if version >= 11:
        encoded += _I32.pack(response.preferred_read_replica)
    return encoded + (wire.unsigned_varint(records_size + 1) if flexible else _I32.pack(records_size))


def _partition_tags(response: PartitionResponse) -> bytes:
    if response.diverging_epoch is None and response.current_leader is None:
        return wire.NO_TAGS
    fields = {}
    if response.diverging_epoch is not None:
        fields[0] = _EPOCH_END.pack(*response.diverging_epoch, 0)
    if response.current_leader is not None:
        fields[1] = _LEADER.pack(*response.current_leader, 0)
    return wire.tagged_fields(fields)
