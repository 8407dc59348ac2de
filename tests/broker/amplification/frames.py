"""Frames in which one part of a request, or two, are as large as the frame allows.

They are built from kio's classes, for any API and version. Every string, byte array, array and section of tagged fields is a
part that can be grown; so is the header. The parts that are not grown hold the least that the schema allows, an array one
element. An element of an array that is grown is encoded once and repeated: that makes a frame of megabytes in
milliseconds, and it makes elements as small as the wire allows.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from itertools import combinations
from typing import Any, Final
from uuid import UUID

from catchment.protocol.apis import APIS, is_flexible, request_class
from catchment.protocol.message_fields import MessageField, message_fields
from catchment.protocol.wire import unsigned_varint

Part = tuple[str, ...]

TAGS: Final = "#tags"
"""The last part of the path of a section of tagged fields that no schema knows."""
ONE_TAG: Final = "#tag"
"""The same section with one field that is as large as can be."""
HEADER: Final = "#header"
_LARGEST_INT16: Final = 2**15 - 1
_NESTED_BYTES: Final = 1024
"""How large the inner one of two nested arrays becomes in each element of the outer one."""
_SIZES: Final = {
    "bool": 1,
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
    "error_code": 2,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
    "datetime_i64": 8,
}
_CHANGING_NAME: Final = b"\xfechange\xfe"
_CHANGING_NUMBER: Final = b"\xfec#\xfe"
_CHANGING_ID: Final = b"\xfechange the id!\xfe"
_CHANGING: Final = re.compile(b"(" + b"|".join(map(re.escape, (_CHANGING_NAME, _CHANGING_NUMBER, _CHANGING_ID))) + b")")
_PARTITIONS: Final = frozenset(
    {"partition", "partition_index", "partition_indexes", "partitions", "partition_id", "index"}
)


class Elements(Enum):
    """What the elements of a grown array are like."""

    EMPTY = "empty"
    """The least that the schema allows: empty strings, zeros, the zero id."""
    REAL = "real"
    """Each names the same things that are there: a topic, a group, a setting."""
    DIFFERENT = "different"
    """Each names something else, which is not there."""


@dataclass(frozen=True, slots=True)
class World:
    """What requests may name so that the broker finds it."""

    topic: str
    topic_id: UUID
    group: str
    numbers: Mapping[str, int] = field(default_factory=dict)
    """What integers are, by the name of their field, where zero would end a request early."""
    texts: Mapping[str, str] = field(default_factory=dict)

    def text(self, name: str) -> str:
        if name in self.texts:
            return self.texts[name]
        if name in ("group_id", "groups", "group_ids", "groups_names", "coordinator_keys"):
            return self.group
        return self.topic if "topic" in name or name == "name" or name == "resource_name" else ""


@dataclass(frozen=True, slots=True)
class Case:
    """A request whose `grown` parts share `size` bytes."""

    key: int
    version: int
    grown: tuple[Part, ...]
    elements: Elements
    size: int

    def __str__(self) -> str:
        parts = "+".join(".".join(path) for path in self.grown)
        return f"{APIS[self.key].name}-{self.version}/{parts}/{self.elements.value}/{self.size}"


def parts(key: int, version: int) -> list[Part]:
    """Every part of a request that can be grown."""
    message_class = request_class(key, version)
    found: list[Part] = [(HEADER,)]
    if is_flexible(key, version):
        found += [(HEADER, TAGS), (HEADER, ONE_TAG)]
    return found + list(_parts(message_class, ()))


def _parts(entity_class: Any, path: Part) -> Iterator[Part]:
    for one in message_fields(entity_class):
        here = (*path, one.name)
        if one.is_array or one.kafka_type in ("string", "bytes", "records"):
            yield here
        if one.is_array and one.kafka_type == "string":
            yield (*here, "each")
        if one.struct is not None:
            yield from _parts(one.struct, here)
    if entity_class.__flexible__:
        yield (*path, TAGS)
        yield (*path, ONE_TAG)


def pairs(key: int, version: int) -> list[tuple[Part, Part]]:
    return list(combinations(parts(key, version), 2))


@dataclass(frozen=True, slots=True)
class Frame:
    data: bytes
    """With its length in front."""
    elements: int
    """Array elements, over all arrays."""


def frame(case: Case, world: World) -> Frame:
    builder = _Builder(case, world)
    message = builder.header() + builder.entity(request_class(case.key, case.version), ())
    return Frame(struct.pack(">i", len(message)) + message, builder.elements)


class _Builder:
    def __init__(self, case: Case, world: World) -> None:
        self._case = case
        self._world = world
        self._flexible = is_flexible(case.key, case.version)
        self._sizes = self._share(case.grown, case.size)
        self.elements = 0
        self._changes = False
        """Whether what is being encoded belongs to an element that must differ from its neighbours."""

    @staticmethod
    def _share(grown: tuple[Part, ...], size: int) -> dict[Part, int]:
        sizes = {path: size // len(grown) for path in grown}
        for outer in grown:
            for inner in grown:
                if outer != inner and inner[: len(outer)] == outer:
                    sizes[outer], sizes[inner] = size, min(_NESTED_BYTES, size)
        return sizes

    def header(self) -> bytes:
        case = self._case
        client_id = b"c" * min(self._sizes.get((HEADER,), 9), _LARGEST_INT16)
        encoded = struct.pack(">hhih", case.key, case.version, 7, len(client_id)) + client_id
        return encoded + self._unknown_tags((HEADER,), []) if self._flexible else encoded

    def entity(self, entity_class: Any, path: Part) -> bytes:
        encoded = []
        tagged = []
        for one in message_fields(entity_class):
            if one.tag is None:
                encoded.append(self._field(one, (*path, one.name), entity_class.__flexible__))
            elif self._is_grown((*path, one.name)):
                value = self._field(one, (*path, one.name), True, is_tagged=True)
                tagged.append(unsigned_varint(one.tag) + unsigned_varint(len(value)) + value)
        if entity_class.__flexible__:
            encoded.append(self._unknown_tags(path, tagged))
        return b"".join(encoded)

    def _is_grown(self, path: Part) -> bool:
        return any(grown[: len(path)] == path for grown in self._sizes)

    def _unknown_tags(self, path: Part, known: Sequence[bytes]) -> bytes:
        unknown = b""
        count = 0
        if size := self._sizes.get((*path, TAGS)):
            one = unsigned_varint(100) + b"\x00"
            if self._case.elements is Elements.DIFFERENT:
                count = size // 4
                unknown = b"".join(unsigned_varint(number) + b"\x00" for number in range(100_000, 100_000 + count))
            else:
                count = size // len(one)
                unknown = one * count
        if size := self._sizes.get((*path, ONE_TAG)):
            count += 1
            unknown += unsigned_varint(2_000_000) + unsigned_varint(size) + bytes(size)
        return unsigned_varint(len(known) + count) + b"".join(known) + unknown

    def _field(self, one: MessageField, path: Part, flexible: bool, *, is_tagged: bool = False) -> bytes:
        if one.is_array:
            return self._array(one, path, flexible)
        if one.struct is not None:
            if one.is_nullable and not is_tagged:
                return b"\x01" + self.entity(one.struct, path) if self._is_grown(path) else b"\xff"
            return self.entity(one.struct, path)
        return self._primitive(one, path, flexible, may_be_null=one.is_nullable)

    def _array(self, one: MessageField, path: Part, flexible: bool) -> bytes:
        size = self._sizes.get(path)
        changes, self._changes = self._changes, size is not None and self._case.elements is Elements.DIFFERENT
        elements = self.elements
        if one.struct is not None:
            element = self.entity(one.struct, path)
        else:
            element = self._primitive(one, (*path, "each"), flexible, may_be_null=False)
        self._changes = changes
        count = 1 if size is None else max(1, size // max(len(element), 1))
        self.elements = elements + count * (1 + self.elements - elements)
        return _count(count, flexible=flexible) + _repeated(element, count)

    def _primitive(self, one: MessageField, path: Part, flexible: bool, *, may_be_null: bool) -> bytes:
        kafka_type = one.kafka_type or ""
        if kafka_type == "string":
            return self._string(one.name, path, flexible, may_be_null=may_be_null)
        if kafka_type in ("bytes", "records"):
            value = bytes(self._sizes.get(path, 0))
            return (unsigned_varint(len(value) + 1) if flexible else struct.pack(">i", len(value))) + value
        if kafka_type == "uuid":
            return self._id(one.name)
        if self._changes and one.name in _PARTITIONS:
            return _CHANGING_NUMBER
        number = 0 if self._case.elements is Elements.EMPTY else self._world.numbers.get(one.name, 0)
        if kafka_type == "float64":
            return struct.pack(">d", number)
        return number.to_bytes(_SIZES[kafka_type], "big", signed=True)

    def _string(self, name: str, path: Part, flexible: bool, *, may_be_null: bool) -> bytes:
        size = self._sizes.get(path)
        if size is not None:
            text = b"x" * (size if flexible else min(size, _LARGEST_INT16))
        elif self._changes:
            text = _CHANGING_NAME
        elif self._case.elements is Elements.EMPTY:
            text = b""
        else:
            text = self._world.text(name).encode()
            if not text and may_be_null:
                return b"\x00" if flexible else b"\xff\xff"
        return (unsigned_varint(len(text) + 1) if flexible else struct.pack(">h", len(text))) + text

    def _id(self, name: str) -> bytes:
        if self._changes:
            return _CHANGING_ID
        if self._case.elements is Elements.EMPTY or name != "topic_id":
            return bytes(16)
        return self._world.topic_id.bytes


def _count(count: int, *, flexible: bool) -> bytes:
    return unsigned_varint(count + 1) if flexible else struct.pack(">i", count)


def _repeated(element: bytes, count: int) -> bytes:
    pieces = _CHANGING.split(element)
    if len(pieces) == 1:
        return element * count
    return b"".join(b"".join(_changed(piece, number) for piece in pieces) for number in range(count))


def _changed(piece: bytes, number: int) -> bytes:
    if piece == _CHANGING_NAME:
        return b"%08d" % number
    if piece == _CHANGING_NUMBER:
        return struct.pack(">i", number)
    if piece == _CHANGING_ID:
        return struct.pack(">qq", 0x1234, number + 1)
    return piece
