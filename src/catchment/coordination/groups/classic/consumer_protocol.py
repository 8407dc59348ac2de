"""The metadata and the assignment of classic members of protocol type `consumer`: Kafka's `ConsumerProtocol`.

The coordinator of a classic group passes these bytes on unread. In a consumer group the coordinator assigns to classic
members too, so it reads their subscriptions and writes their assignments.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from catchment.protocol.errors import MalformedRequest
from catchment.protocol.wire import WireReader, string

_I16: Final = struct.Struct(">h")
_I32: Final = struct.Struct(">i")
_FIRST_WITH_OWNED: Final = 1
_FIRST_WITH_GENERATION: Final = 2
_FIRST_WITH_RACK: Final = 3
_NEWEST: Final = 3
_NO_USER_DATA: Final = b"\xff\xff\xff\xff"

PartitionsByName = Mapping[str, Sequence[int]]


class EmbeddedSubscription(NamedTuple):
    version: int
    topics: tuple[str, ...]
    """In order."""
    owned: PartitionsByName
    """The partitions that a cooperative member still owns. An eager member has revoked all before it joins."""
    rack_id: str | None


class EmbeddedAssignment(NamedTuple):
    partitions: PartitionsByName
    has_user_data: bool
    """Only custom assignors use it."""


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """The topics in the metadata of a member of type `consumer`; None if they cannot be read."""
    reader = WireReader(memoryview(subscription), 0, flexible=False)
    try:
        reader.i16()
        return frozenset([reader.string() for _ in range(reader.array_length(_I16.size))])
    except MalformedRequest:
        return None


def read_subscription(metadata: bytes) -> EmbeddedSubscription:
    """Decode the metadata of a member; MalformedRequest if that fails."""
    reader = WireReader(memoryview(metadata), 0, flexible=False)
    version = reader.i16()
    if version < 0:
        raise MalformedRequest(f"a subscription of version {version}")
    topics = tuple(sorted([reader.string() for _ in range(reader.array_length(_I16.size))]))
    reader.nullable_bytes()
    owned = _read_partitions(reader) if version >= _FIRST_WITH_OWNED else {}
    if version >= _FIRST_WITH_GENERATION:
        reader.i32()
    rack_id = reader.nullable_string() if version >= _FIRST_WITH_RACK else None
    return EmbeddedSubscription(version, topics, owned, rack_id or None)


def read_assignment(assignment: bytes) -> EmbeddedAssignment:
    """Decode an assignment; MalformedRequest if that fails. No bytes mean no partitions."""
    if not assignment:
        return EmbeddedAssignment({}, has_user_data=False)
    reader = WireReader(memoryview(assignment), 0, flexible=False)
    version = reader.i16()
    if version < 0:
        raise MalformedRequest(f"an assignment of version {version}")
    partitions = _read_partitions(reader)
    return EmbeddedAssignment(partitions, has_user_data=bool(reader.nullable_bytes()))


def write_assignment(partitions: PartitionsByName, version: int) -> bytes:
    pieces = [_I16.pack(min(version, _NEWEST)), _I32.pack(len(partitions))]
    for name in sorted(partitions):
        numbers = sorted(partitions[name])
        pieces += (
            string(name, flexible=False),
            _I32.pack(len(numbers)),
            struct.pack(f">{len(numbers)}i", *numbers),
        )
    return b"".join((*pieces, _NO_USER_DATA))


def _read_partitions(reader: WireReader) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for _ in range(reader.array_length(_I16.size + _I32.size)):
        name = reader.string()
        found.setdefault(name, []).extend(reader.i32() for _ in range(reader.array_length(_I32.size)))
    return found
