"""The record formats that consumer groups and share groups have in common, in Kafka's encoding.

Keys are not flexible, values are. Every value begins with its version, and 0 is the only one so far.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Final
from uuid import UUID

from catchment.coordination.coordinator_shard import UnreadableRecord
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.wire import NO_TAGS, WireReader, array_length, string, tagged_fields

VERSION: Final = b"\x00\x00"
EPOCHS_AND_STATE: Final = struct.Struct(">iib")
"""The beginning of a current assignment: the member epoch, the previous one, and the state."""
SMALLEST_TOPIC_BYTES: Final = 18
"""An id, an empty array or string, and no tagged fields."""
_NUMBER_BYTES: Final = 4
_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_I64: Final = struct.Struct(">q")


class ValueReader:
    """Opens a value for reading, and turns read errors into UnreadableRecord."""

    def __init__(self, value: bytes, what: str) -> None:
        self._value = value
        self._what = what

    def __enter__(self) -> WireReader:
        if self._value[: len(VERSION)] != VERSION:
            raise UnreadableRecord(f"{self._what} has an unknown version")
        return WireReader(memoryview(self._value), len(VERSION), flexible=True)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, MalformedRequest | struct.error):
            raise UnreadableRecord(f"{self._what}: {error}") from error


def encode_names(names: Collection[str]) -> bytes:
    return array_length(len(names), flexible=True) + b"".join([string(name, flexible=True) for name in names])


def read_names(reader: WireReader) -> tuple[str, ...]:
    return tuple([reader.string() for _ in range(reader.array_length(1))])


def encode_numbers(numbers: Iterable[int]) -> bytes:
    listed = list(numbers)
    return array_length(len(listed), flexible=True) + struct.pack(f">{len(listed)}i", *listed)


def read_numbers(reader: WireReader) -> list[int]:
    return [reader.i32() for _ in range(reader.array_length(_NUMBER_BYTES))]


def encode_key(version: int, group_id: str, name: str | None = None) -> bytes:
    """The key of a group's record, or with a name that of a member or a regular expression."""
    key = _I16.pack(version) + string(group_id, flexible=False)
    return key if name is None else key + string(name, flexible=False)


def decode_key(key: bytes) -> tuple[str, str]:
    """The group, and the member or regular expression (empty where the key has none)."""
    reader = WireReader(memoryview(key), _I16.size, flexible=False)
    try:
        group_id = reader.string()
        return group_id, reader.string() if reader.position < reader.end else ""
    except MalformedRequest as error:
        raise UnreadableRecord(f"a key of a consumer group: {error}") from error


def encode_target_epoch(epoch: int, time_ms: int) -> bytes:
    return VERSION + _I32.pack(epoch) + tagged_fields({0: _I64.pack(time_ms)})


def decode_target_epoch(value: bytes) -> int:
    with ValueReader(value, "the epoch of a target") as reader:
        return reader.i32()


def encode_target(target: Mapping[UUID, frozenset[int]]) -> bytes:
    return VERSION + encode_topics({topic_id: sorted(numbers) for topic_id, numbers in target.items()}) + NO_TAGS


def decode_target(value: bytes) -> dict[UUID, frozenset[int]]:
    with ValueReader(value, "a target") as reader:
        return {topic_id: frozenset(numbers) for topic_id, numbers, _ in read_topics(reader)}


def encode_topics(topics: Mapping[UUID, list[int]], tags: Mapping[UUID, bytes] | None = None) -> bytes:
    pieces = [array_length(len(topics), flexible=True)]
    for topic_id, numbers in topics.items():
        pieces += (topic_id.bytes, encode_numbers(numbers), NO_TAGS if tags is None else tags[topic_id])
    return b"".join(pieces)


def read_topics(reader: WireReader) -> Iterator[tuple[UUID, list[int], list[int]]]:
    """The partitions of each topic, and their assignment epochs where the record holds them."""
    for _ in range(reader.array_length(SMALLEST_TOPIC_BYTES)):
        topic_id, numbers = reader.uuid(), read_numbers(reader)
        epochs = read_tags(reader).get(0)
        known = [] if epochs is None else read_numbers(WireReader(epochs, 0, flexible=True))
        yield topic_id, numbers, known


def read_tags(reader: WireReader) -> dict[int, memoryview]:
    return dict([reader.tag() for _ in range(reader.unsigned_varint())])
