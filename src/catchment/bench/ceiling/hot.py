"""Produce and Fetch of the ceiling, decoded and encoded so that no record is copied.

Only one version of each is supported, the newest that librdkafka requests: Produce 10 and Fetch 16.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kio.schema.fetch.v16.request import FetchRequest
from kio.serial import entity_reader

from catchment.bench.ceiling.memory import RememberedTopics

PRODUCE_VERSION = 10
FETCH_VERSION = 16

_INT32 = struct.Struct(">i")
_PRODUCED = struct.Struct(">ihqqqbbb")
_FETCHED = struct.Struct(">ihqqqbi")
_read_fetch = entity_reader(FetchRequest)


def unsigned_varint(value: int) -> bytes:
    """Seven bits a byte, the lowest first."""
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def read_unsigned_varint(frame: memoryview, position: int) -> tuple[int, int]:
    """The value and the position after it."""
    value = shift = 0
    while True:
        byte = frame[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7


@dataclass(frozen=True, slots=True)
class ProducedBatch:
    """The records for one partition, still in the receive buffer."""

    topic: bytes
    partition: int
    records: memoryview


def batches(frame: memoryview, position: int) -> tuple[int, Iterator[ProducedBatch]]:
    """The acks, and the batches of a Produce body that starts at `position`."""
    length, position = read_unsigned_varint(frame, position)
    position += max(0, length - 1)
    acks = int.from_bytes(frame[position : position + 2], "big", signed=True)
    return acks, _batches(frame, position + 6)


def _batches(frame: memoryview, position: int) -> Iterator[ProducedBatch]:
    topics, position = read_unsigned_varint(frame, position)
    for _ in range(topics - 1):
        length, position = read_unsigned_varint(frame, position)
        topic = bytes(frame[position : position + length - 1])
        partitions, position = read_unsigned_varint(frame, position + length - 1)
        for _ in range(partitions - 1):
            index: int = _INT32.unpack_from(frame, position)[0]
            length, position = read_unsigned_varint(frame, position + 4)
            yield ProducedBatch(topic, index, frame[position : position + length - 1])
            position += length - 1 + 1
        position += 1


def produce(topics: RememberedTopics, found: Iterator[ProducedBatch]) -> bytes:
    """Count every batch and respond with its base offset; one entry a batch, which the protocol allows."""
    answers = []
    for batch in found:
        base_offset = topics.by_name[batch.topic.decode()][batch.partition].append(batch.records)
        answers.append(
            unsigned_varint(len(batch.topic) + 1)
            + batch.topic
            + b"\x02"
            + _PRODUCED.pack(batch.partition, 0, base_offset, -1, 0, 1, 0, 0)
            + b"\x00"
        )
    return unsigned_varint(len(answers) + 1) + b"".join(answers) + b"\x00\x00\x00\x00\x00"


def read_fetch(frame: memoryview, position: int) -> FetchRequest:
    """The body of a Fetch request."""
    request, _ = _read_fetch(frame, position)
    return request


def fetch(topics: RememberedTopics, request: FetchRequest) -> tuple[Sequence[bytes | memoryview], int]:
    """The pieces of a Fetch response, and how many bytes of them are records."""
    pieces: list[bytes | memoryview] = [bytes(10) + unsigned_varint(len(request.topics) + 1)]
    total = 0
    for topic in request.topics:
        identity = topic.topic_id.bytes if topic.topic_id else bytes(16)
        pieces.append(identity + unsigned_varint(len(topic.partitions) + 1))
        for wanted in topic.partitions:
            partition = topics.by_id[identity][wanted.partition]
            allowed = min(wanted.partition_max_bytes, request.max_bytes - total)
            records, size = partition.read(wanted.fetch_offset, allowed) if allowed > 0 else ([], 0)
            end = partition.end_offset
            pieces.append(_FETCHED.pack(wanted.partition, 0, end, end, 0, 0, -1) + unsigned_varint(size + 1))
            pieces += records
            pieces.append(b"\x00")
            total += size
        pieces.append(b"\x00")
    pieces.append(b"\x00")
    return pieces, total
