"""Check the bytes of a message before kio decodes them.

kio allocates arrays by the count on the wire, so twenty bytes could end the process, and it rejects unknown tagged fields,
which KIP-482 says to skip. The guard walks over a message by its schema, checks that every count and length fits into the
remaining bytes, and removes unknown tagged fields. It must read exactly as kio does: if the two disagree about the position of
one byte, kio finds its counts where the guard saw something else. What kio reads differently from Kafka is rewritten, and
`codec` checks that both end at the same byte.

As in Kafka, bytes after the end of a message are ignored, and a string has at most 32,767 bytes. The memory of the decoded
message is bounded as well (see `budget`), because one byte on the wire may become an object of a hundred.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from struct import Struct, error
from typing import Any, Final

from catchment.protocol.budget import (
    ARRAY_BYTES,
    EDIT_BYTES,
    POINTER_BYTES,
    PRIMITIVE_BYTES,
    SMALLEST_STRUCT_BYTES,
    TAG_BYTES,
    TEXT_BYTES,
    struct_bytes,
)
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.message_fields import MessageField, message_fields
from catchment.protocol.wire import LONGEST_STRING_BYTES, read_unsigned_varint, unsigned_varint

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
_NULL_STRUCT: Final = b"\xff"
_FIXED_SIZES: Final = {
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


@dataclass(slots=True)
class _Walk:
    """One walk: the bytes, their end, the memory that is left for the message, and the edits."""

    data: bytes
    limit: int
    memory_left: int
    is_lifted: bool
    edits: list[tuple[int, int, bytes]] = field(default_factory=list)

    def replace(self, start: int, end: int, replacement: bytes) -> None:
        self.memory_left -= EDIT_BYTES
        self.edits.append((start, end, replacement))


_Step = Callable[[_Walk, int], int]


@dataclass(frozen=True, slots=True)
class _Skipper:
    """How to skip one value: at least `minimum_size` bytes, and exactly that many without a `step`.

    `memory` is what the decoded value takes, except what `step` counts itself; `structs` is the part of it that is allocated
    twice when the message is lifted to a newer class.
    """

    minimum_size: int
    memory: int
    step: _Step | None = None
    structs: int = 0


def guarded(message_class: Any, data: bytes, memory: int, *, is_lifted: bool = False) -> bytes:
    """The bytes of a message that kio may decode to objects of at most `memory` bytes. Raises MalformedRequest."""
    walk = _Walk(data, len(data), memory, is_lifted)
    skipper = _entity(message_class)
    try:
        end = skipper.step(walk, 0) if skipper.step else skipper.minimum_size
    except (IndexError, error):
        raise MalformedRequest(f"{message_class.__name__} ends too early") from None
    if end > len(data):
        raise MalformedRequest(f"{message_class.__name__} ends too early")
    if walk.memory_left < 0:
        raise MalformedRequest(f"{message_class.__name__} of {end} bytes has too many elements")
    if walk.edits:
        return _rewrite(data[:end], walk.edits)
    return data if end == len(data) else data[:end]


def _rewrite(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    pieces: list[bytes] = []
    position = 0
    for start, end, replacement in sorted(edits):
        pieces += (data[position:start], replacement)
        position = end
    return b"".join([*pieces, data[position:]])


@cache
def _entity(entity_class: Any) -> _Skipper:
    flexible: bool = entity_class.__flexible__
    members = list(message_fields(entity_class))
    plain = [_field(one, flexible) for one in members if one.tag is None]
    minimum_size = sum(skipper.minimum_size for skipper in plain) + flexible
    own = struct_bytes(len(members))
    memory = max(own + sum(skipper.memory for skipper in plain), SMALLEST_STRUCT_BYTES)
    structs = own + sum(skipper.structs for skipper in plain)
    steps = _merge_fixed(plain)
    if flexible:
        steps.append(_tagged_fields(members))
    if not any(skipper.step for skipper in plain) and not flexible:
        return _Skipper(minimum_size, memory, structs=structs)

    def skip_entity(walk: _Walk, offset: int) -> int:
        for step in steps:
            offset = step(walk, offset)
        return offset

    return _Skipper(minimum_size, memory, skip_entity, structs)


def _merge_fixed(skippers: Sequence[_Skipper]) -> list[_Step]:
    """The steps for consecutive values, with neighbours of fixed size merged."""
    steps: list[_Step] = []
    fixed_size = 0
    for skipper in skippers:
        if skipper.step is None:
            fixed_size += skipper.minimum_size
            continue
        if fixed_size:
            steps.append(_skip_fixed(fixed_size))
            fixed_size = 0
        steps.append(skipper.step)
    if fixed_size:
        steps.append(_skip_fixed(fixed_size))
    return steps


def _skip_fixed(size: int) -> _Step:
    # The next step, or the end of the walk, detects an offset past the end.
    return lambda walk, offset: offset + size


def _field(one: MessageField, flexible: bool) -> _Skipper:
    element = _primitive(one.kafka_type, flexible) if one.struct is None else _entity(one.struct)
    if one.is_array:
        return _array(element, flexible, nullable=one.is_nullable)
    return _nullable_entity(element) if one.struct is not None and one.is_nullable else element


def _primitive(kafka_type: str | None, flexible: bool) -> _Skipper:
    if kafka_type is not None and (size := _FIXED_SIZES.get(kafka_type)):
        return _Skipper(size, PRIMITIVE_BYTES[kafka_type])
    is_string = kafka_type == "string"
    if flexible:
        return _Skipper(1, 0, _skip_compact_string if is_string else _skip_compact_bytes)
    length = _INT16 if is_string else _INT32
    return _Skipper(length.size, 0, _skip_legacy(length))


def _skip_compact_string(walk: _Walk, offset: int) -> int:
    size = walk.data[offset]
    if size < 0x80:
        if size <= 1:
            return offset + 1
        offset += size
    else:
        size, offset = read_unsigned_varint(walk.data, offset)
        if size > LONGEST_STRING_BYTES + 1:
            raise MalformedRequest(f"a string of {size - 1} bytes")
        # A varint of several bytes may be zero as well.
        offset += max(size - 1, 0)
    walk.memory_left -= TEXT_BYTES
    if offset > walk.limit:
        raise MalformedRequest("a string is longer than the message")
    return offset


def _skip_compact_bytes(walk: _Walk, offset: int) -> int:
    size, offset = read_unsigned_varint(walk.data, offset)
    offset += max(size - 1, 0)
    walk.memory_left -= TEXT_BYTES
    if offset > walk.limit:
        raise MalformedRequest("a field is longer than the message")
    return offset


def _skip_legacy(length: Struct) -> _Step:
    # kio checks whether a field may be null (-1).
    def skip_legacy(walk: _Walk, offset: int) -> int:
        (size,) = length.unpack_from(walk.data, offset)
        offset += length.size
        if size <= 0:
            if size < -1:
                raise MalformedRequest(f"a string of {size} bytes")
            return offset
        offset += size
        walk.memory_left -= TEXT_BYTES
        if offset > walk.limit:
            raise MalformedRequest("a string is longer than the message")
        return offset

    return skip_legacy


def _nullable_entity(skipper: _Skipper) -> _Skipper:
    """A struct after a byte that says whether it is null (KIP-893): in Kafka, any negative number means null."""
    step = skipper.step or _skip_fixed(skipper.minimum_size)

    def skip_nullable_entity(walk: _Walk, offset: int) -> int:
        marker = walk.data[offset]
        if marker < 0x80:
            return step(walk, offset + 1)
        if marker != _NULL_STRUCT[0]:
            # kio only accepts -1 and would otherwise read a struct.
            walk.replace(offset, offset + 1, _NULL_STRUCT)
        return offset + 1

    return _Skipper(1, skipper.memory, skip_nullable_entity, skipper.structs)


def _array(element: _Skipper, flexible: bool, nullable: bool) -> _Skipper:
    element_size = max(element.minimum_size, 1)
    element_memory = POINTER_BYTES + element.memory
    # A lifted struct has a second object, and an entry in a second tuple.
    lifted_memory = element_memory + (POINTER_BYTES + element.structs if element.structs else 0)
    step = element.step

    def skip_array(walk: _Walk, offset: int) -> int:
        if flexible:
            count, offset = read_unsigned_varint(walk.data, offset)
            count -= 1
        else:
            (count,) = _INT32.unpack_from(walk.data, offset)
            offset += _INT32.size
        if count <= 0:
            if count < 0 and (count < -1 or not nullable):
                raise MalformedRequest("an array that may not be null is null")
            return offset
        walk.memory_left -= ARRAY_BYTES + count * (lifted_memory if walk.is_lifted else element_memory)
        if count * element_size > walk.limit - offset or walk.memory_left < 0:
            raise MalformedRequest(f"an array claims {count} elements")
        if step is None:
            return offset + count * element_size
        for _ in range(count):
            offset = step(walk, offset)
        return offset

    return _Skipper(1 if flexible else _INT32.size, 0, skip_array)


def _tagged_fields(members: Sequence[MessageField]) -> _Step:
    known = {one.tag: _field(one, flexible=True) for one in members if one.tag is not None}

    def skip_tagged_fields(walk: _Walk, offset: int) -> int:
        if walk.data[offset] == 0:
            return offset + 1
        return _skip_tags(walk, offset, known)

    return skip_tagged_fields


def _skip_tags(walk: _Walk, start: int, known: dict[int, _Skipper]) -> int:
    count, offset = read_unsigned_varint(walk.data, start)
    walk.memory_left -= count * TAG_BYTES
    if 2 * count > walk.limit - offset or walk.memory_left < 0:
        raise MalformedRequest(f"{count} tagged fields")
    count_end = offset
    seen: set[int] = set()
    cut_from, cut_to = count_end, count_end
    unknown = 0
    for _ in range(count):
        tag_start = offset
        tag, size_start = read_unsigned_varint(walk.data, offset)
        size, offset = read_unsigned_varint(walk.data, size_start)
        if size > walk.limit - offset or tag in seen:
            raise MalformedRequest(f"tagged field {tag} is too long or is repeated")
        skipper = known.get(tag)
        if skipper is not None:
            seen.add(tag)
            offset = _skip_known_tag(walk, skipper, size_start, offset, size)
            continue
        unknown += 1
        offset += size
        # Adjacent unknown fields are removed by one edit.
        if cut_to != tag_start:
            if cut_from != cut_to:
                walk.replace(cut_from, cut_to, b"")
            cut_from = tag_start
        cut_to = offset
    if unknown:
        walk.replace(cut_from, cut_to, b"")
        walk.replace(start, count_end, unsigned_varint(count - unknown))
    return offset


def _skip_known_tag(walk: _Walk, skipper: _Skipper, size_start: int, start: int, size: int) -> int:
    """Walk over a tagged field within its own bounds. If something is removed from it, its size changes too."""
    outer_limit, walk.limit = walk.limit, start + size
    walk.memory_left -= skipper.memory + skipper.structs
    edits_before = len(walk.edits)
    end = skipper.step(walk, start) if skipper.step else start + skipper.minimum_size
    if end != walk.limit:
        raise MalformedRequest("a tagged field does not match its size")
    walk.limit = outer_limit
    cut = sum(last - first - len(instead) for first, last, instead in walk.edits[edits_before:])
    if cut:
        walk.replace(size_start, start, unsigned_varint(size - cut))
    return end
