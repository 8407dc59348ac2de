"""What classic members of type `consumer` put into their metadata, and get as their assignment.

The coordinator of a classic group passes these bytes on without a look. In a consumer group it assigns to classic members
too, so it has to read the one and write the other.
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
    """What a cooperative member still reads; an eager one has given up everything before it joins."""
    rack_id: str | None


class EmbeddedAssignment(NamedTuple):
    partitions: PartitionsByName
    has_user_data: bool
    """Only assignors of a user's own make use of that."""


def subscribed_topics(subscription: bytes) -> frozenset[str] | None:
    """The topics in the metadata of a member of type `consumer`; None where they cannot be read."""
    reader = WireReader(memoryview(subscription), 0, flexible=False)
    try:
        reader.i16()
        return frozenset([reader.string() for _ in range(reader.array_length(_I16.size))])
    except MalformedRequest:
        return None


def read_subscription(metadata: bytes) -> EmbeddedSubscription:
    """MalformedRequest where the bytes are something else."""
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
    """MalformedRequest where the bytes are something else; nothing at all is nothing assigned."""
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
