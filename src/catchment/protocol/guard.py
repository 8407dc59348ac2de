"""Walk the bytes of a message before kio decodes them.

kio allocates arrays by the count on the wire, so twenty bytes from a stranger could end the process, and it refuses
tagged fields that it does not know, which KIP-482 says to skip. The guard steps over a message by its schema, checks
that every count and length fits into the bytes that are there, and cuts unknown tagged fields out.

As in Kafka, bytes behind the end of a message are ignored. The number of array elements in one message is bounded
as well, because an element of one byte on the wire becomes an object of a hundred in memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, field, fields
from functools import cache
from struct import Struct, error
from types import NoneType
from typing import Any, Final, get_args, get_origin

from kio.serial._introspect import EntityField, EntityTupleField, classify_field, get_field_tag, is_optional

from catchment.protocol.errors import MalformedRequest
from catchment.protocol.varints import read_unsigned_varint
from catchment.protocol.wire import unsigned_varint

MAXIMUM_ELEMENTS: Final = 2_000_000
"""Array elements in one message, over all its arrays: enough for the metadata of 200,000 partitions."""

_INT16: Final = Struct(">h")
_INT32: Final = Struct(">i")
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
    """One walk: the bytes, where they end, how many elements are still allowed, and what is to be cut."""

    data: bytes
    limit: int
    elements_left: int = MAXIMUM_ELEMENTS
    edits: list[tuple[int, int, bytes]] = field(default_factory=list)


_Step = Callable[[_Walk, int], int]


@dataclass(frozen=True, slots=True)
class _Skipper:
    """How to step over one value: at least `minimum_size` bytes, and exactly so many if there is no `step`."""

    minimum_size: int
    step: _Step | None = None


def guarded(message_class: Any, data: bytes) -> bytes:
    """The bytes of a message that kio may decode, or MalformedRequest."""
    walk = _Walk(data, len(data))
    skipper = _entity(message_class)
    try:
        end = skipper.step(walk, 0) if skipper.step else skipper.minimum_size
    except (IndexError, error):
        raise MalformedRequest(f"{message_class.__name__} ends too early") from None
    if end > len(data):
        raise MalformedRequest(f"{message_class.__name__} ends too early")
    return _cut(data, walk.edits) if walk.edits else data


def _cut(data: bytes, edits: list[tuple[int, int, bytes]]) -> bytes:
    pieces: list[bytes] = []
    position = 0
    for start, end, replacement in sorted(edits):
        pieces += (data[position:start], replacement)
        position = end
    return b"".join([*pieces, data[position:]])


@cache
def _entity(entity_class: Any) -> _Skipper:
    flexible: bool = entity_class.__flexible__
    plain = [_field(one, flexible) for one in fields(entity_class) if get_field_tag(one) is None]
    minimum_size = sum(skipper.minimum_size for skipper in plain) + flexible
    steps = _merge_fixed(plain)
    if flexible:
        steps.append(_tagged_fields(entity_class))
    if not any(skipper.step for skipper in plain) and not flexible:
        return _Skipper(minimum_size)

    def skip_entity(walk: _Walk, offset: int) -> int:
        for step in steps:
            offset = step(walk, offset)
        return offset

    return _Skipper(minimum_size, skip_entity)


def _merge_fixed(skippers: Sequence[_Skipper]) -> list[_Step]:
    """The steps for a row of values, with neighbours of fixed size taken in one."""
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
    # Whoever reads next, or the end of the walk, finds out when this leads past the end.
    return lambda walk, offset: offset + size


def _field(one: Field[Any], flexible: bool) -> _Skipper:
    kind = classify_field(one)
    if isinstance(kind, EntityField):
        skipper = _entity(kind.type_)
        return _nullable_entity(skipper) if is_optional(one) and get_field_tag(one) is None else skipper
    if isinstance(kind, EntityTupleField):
        return _array(_entity(kind.type_), flexible, nullable=_may_be_null(one))
    element = _primitive(one.metadata["kafka_type"], flexible)
    return _array(element, flexible, nullable=_may_be_null(one)) if kind.is_array else element


def _may_be_null(one: Field[Any]) -> bool:
    """Whether the array itself may be null: kio's `is_optional` also says so where only its elements may be."""
    return get_origin(one.type) is not tuple and NoneType in get_args(one.type)


def _primitive(kafka_type: str, flexible: bool) -> _Skipper:
    if size := _FIXED_SIZES.get(kafka_type):
        return _Skipper(size)
    if flexible:
        return _Skipper(1, _skip_compact_bytes)
    if kafka_type == "string":
        return _Skipper(_INT16.size, _skip_legacy(_INT16))
    return _Skipper(_INT32.size, _skip_legacy(_INT32))


def _skip_compact_bytes(walk: _Walk, offset: int) -> int:
    size = walk.data[offset]
    if size < 0x80:
        offset += size or 1
    else:
        size, offset = read_unsigned_varint(walk.data, offset)
        offset += size - 1
    if offset > walk.limit:
        raise MalformedRequest("a string is longer than the message")
    return offset


def _skip_legacy(length: Struct) -> _Step:
    # Null (-1) is kio's to judge; it knows which fields may be null.
    def skip_legacy(walk: _Walk, offset: int) -> int:
        (size,) = length.unpack_from(walk.data, offset)
        offset += length.size + max(size, 0)
        if offset > walk.limit or size < -1:
            raise MalformedRequest("a string is longer than the message")
        return offset

    return skip_legacy


def _nullable_entity(skipper: _Skipper) -> _Skipper:
    """A struct behind a byte that says whether it is there (KIP-893)."""
    step = skipper.step or _skip_fixed(skipper.minimum_size)

    def skip_nullable_entity(walk: _Walk, offset: int) -> int:
        return offset + 1 if walk.data[offset] >= 0x80 else step(walk, offset + 1)

    return _Skipper(1, skip_nullable_entity)


def _array(element: _Skipper, flexible: bool, nullable: bool) -> _Skipper:
    element_size = max(element.minimum_size, 1)
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
        walk.elements_left -= count
        if count * element_size > walk.limit - offset or walk.elements_left < 0:
            raise MalformedRequest(f"an array claims {count} elements")
        if step is None:
            return offset + count * element_size
        for _ in range(count):
            offset = step(walk, offset)
        return offset

    return _Skipper(1 if flexible else _INT32.size, skip_array)


def _tagged_fields(entity_class: Any) -> _Step:
    known = {
        int(tag): _field(one, flexible=True) for one in fields(entity_class) if (tag := get_field_tag(one)) is not None
    }

    def skip_tagged_fields(walk: _Walk, offset: int) -> int:
        if walk.data[offset] == 0:
            return offset + 1
        return _skip_tags(walk, offset, known)

    return skip_tagged_fields


def _skip_tags(walk: _Walk, start: int, known: dict[int, _Skipper]) -> int:
    count, offset = read_unsigned_varint(walk.data, start)
    count_end = offset
    seen: set[int] = set()
    unknown = 0
    for _ in range(count):
        tag_start = offset
        tag, size_start = read_unsigned_varint(walk.data, offset)
        size, offset = read_unsigned_varint(walk.data, size_start)
        if size > walk.limit - offset or tag in seen:
            raise MalformedRequest(f"tagged field {tag} is too long or comes twice")
        skipper = known.get(tag)
        if skipper is None:
            unknown += 1
            offset += size
            walk.edits.append((tag_start, offset, b""))
        else:
            seen.add(tag)
            offset = _skip_known_tag(walk, skipper, size_start, offset, size)
    if unknown:
        walk.edits.append((start, count_end, unsigned_varint(count - unknown)))
    return offset


def _skip_known_tag(walk: _Walk, skipper: _Skipper, size_start: int, start: int, size: int) -> int:
    """Walk a tagged field inside its own bounds; if something is cut from it, its size changes too."""
    outer_limit, walk.limit = walk.limit, start + size
    edits_before = len(walk.edits)
    end = skipper.step(walk, start) if skipper.step else start + skipper.minimum_size
    if end != walk.limit:
        raise MalformedRequest("a tagged field does not fill its size")
    walk.limit = outer_limit
    cut = sum(last - first - len(instead) for first, last, instead in walk.edits[edits_before:])
    if cut:
        walk.edits.append((size_start, start, unsigned_varint(size - cut)))
    return end
