"""The protocol's primitive types, for the messages that are too frequent for kio.

The reader takes a memoryview and copies nothing but strings. Every length is checked against the remaining bytes, and the
memory of the decoded message against the budget of a request of its size. Varints are unsigned in flexible messages, and
zigzag inside record batches. kio's readers accept unsigned varints of 35 bits, which Kafka rejects.
"""

import struct
from uuid import UUID

from catchment.protocol.budget import ARRAY_BYTES, SMALL_ITEM_BYTES, TAG_BYTES, request_memory
from catchment.protocol.errors import MalformedRequest

_I16 = struct.Struct(">h")
_I32 = struct.Struct(">i")
_I64 = struct.Struct(">q")

LONGEST_STRING_BYTES = 0x7FFF
"""Kafka's bound in every version, though a compact string could be longer."""
NO_TAGS = b"\x00"

Piece = bytes | bytearray | memoryview
"""A part of a response; large parts are sent without a copy."""


class WireReader:
    """A cursor over one message. It raises MalformedRequest if the bytes end too early."""

    __slots__ = ("data", "end", "flexible", "memory_left", "position")

    def __init__(self, data: memoryview, position: int, *, flexible: bool) -> None:
        self.data = data
        self.position = position
        self.end = data.nbytes
        self.flexible = flexible
        self.memory_left = request_memory(self.end)

    def unpack(self, layout: struct.Struct) -> tuple[int, ...]:
        """Several fixed-size fields at once."""
        position = self.position
        self.position = position + layout.size
        if self.position > self.end:
            raise MalformedRequest("the message ends inside a field")
        return layout.unpack_from(self.data, position)

    def i16(self) -> int:
        return self.unpack(_I16)[0]

    def i32(self) -> int:
        return self.unpack(_I32)[0]

    def i64(self) -> int:
        return self.unpack(_I64)[0]

    def unsigned_varint(self) -> int:
        position = self.position
        if position < self.end and (byte := self.data[position]) < 0x80:
            self.position = position + 1
            return byte
        value, self.position = read_unsigned_varint(self.data, position)
        return value

    def array_length(self, item_size: int, item_memory: int = SMALL_ITEM_BYTES) -> int:
        """The number of items, each of at least `item_size` bytes here and `item_memory` bytes once decoded.

        A null array counts as empty.
        """
        length = self.unsigned_varint() - 1 if self.flexible else self.i32()
        if length <= 0:
            return 0
        self.memory_left -= ARRAY_BYTES + length * item_memory
        if length * item_size > self.end - self.position or self.memory_left < 0:
            raise MalformedRequest(f"an array claims {length} items in {self.end - self.position} bytes")
        return length

    def buffer(self, length: int) -> memoryview:
        start = self.position
        self.position = start + length
        if self.position > self.end:
            raise MalformedRequest(f"a field claims {length} bytes, but {self.end - start} are left")
        return self.data[start : self.position]

    def nullable_string(self) -> str | None:
        length = self.unsigned_varint() - 1 if self.flexible else self.i16()
        if length < 0:
            return None
        if length > LONGEST_STRING_BYTES:
            raise MalformedRequest(f"a string of {length} bytes")
        try:
            return str(self.buffer(length), "utf-8")
        except UnicodeDecodeError as error:
            raise MalformedRequest("a string is not UTF-8") from error

    def string(self) -> str:
        text = self.nullable_string()
        if text is None:
            raise MalformedRequest("a string that may not be null is null")
        return text

    def nullable_bytes(self) -> memoryview | None:
        length = self.unsigned_varint() - 1 if self.flexible else self.i32()
        return None if length < 0 else self.buffer(length)

    def uuid(self) -> UUID:
        return UUID(bytes=bytes(self.buffer(16)))

    def skip_tags(self) -> None:
        if self.flexible:
            for _ in range(self.tag_count()):
                self.tag()

    def tag_count(self) -> int:
        """The number of tagged fields in the section that starts here."""
        count = self.unsigned_varint()
        if count:
            self.memory_left -= count * TAG_BYTES
            if 2 * count > self.end - self.position or self.memory_left < 0:
                raise MalformedRequest(f"{count} tagged fields in {self.end - self.position} bytes")
        return count

    def tag(self) -> tuple[int, memoryview]:
        """One tagged field: its number and its bytes."""
        number = self.unsigned_varint()
        return number, self.buffer(self.unsigned_varint())


def unsigned_varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def array_length(length: int, *, flexible: bool) -> bytes:
    return unsigned_varint(length + 1) if flexible else _I32.pack(length)


def string(text: str, *, flexible: bool) -> bytes:
    encoded = text.encode()
    return (unsigned_varint(len(encoded) + 1) if flexible else _I16.pack(len(encoded))) + encoded


def nullable_string(text: str | None, *, flexible: bool) -> bytes:
    if text is None:
        return b"\x00" if flexible else b"\xff\xff"
    return string(text, flexible=flexible)


def tagged_fields(fields: dict[int, bytes]) -> bytes:
    """The tagged fields of one struct, sorted by their numbers."""
    encoded = [unsigned_varint(len(fields))]
    for number in sorted(fields):
        encoded += (unsigned_varint(number), unsigned_varint(len(fields[number])), fields[number])
    return b"".join(encoded)


def read_unsigned_varint(data: memoryview | bytes, offset: int) -> tuple[int, int]:
    """Read an unsigned varint of at most 32 bits: its value and the offset after it."""
    return _read(data, offset, bits=32)


def read_varint(data: memoryview | bytes, offset: int) -> tuple[int, int]:
    """Read a zigzag varint of at most 32 bits: its value and the offset after it."""
    value, offset = _read(data, offset, bits=32)
    return (value >> 1) ^ -(value & 1), offset


def read_varlong(data: memoryview | bytes, offset: int) -> tuple[int, int]:
    """Read a zigzag varint of at most 64 bits: its value and the offset after it."""
    value, offset = _read(data, offset, bits=64)
    return (value >> 1) ^ -(value & 1), offset


def _read(data: memoryview | bytes, offset: int, bits: int) -> tuple[int, int]:
    try:
        byte = data[offset]
        if byte < 0x80:
            return byte, offset + 1
        value = byte & 0x7F
        for shift in range(7, bits, 7):
            offset += 1
            byte = data[offset]
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if value >> bits:
                    break
                return value, offset + 1
    except IndexError:
        raise MalformedRequest("the bytes end inside a varint") from None
    raise MalformedRequest(f"a varint is longer than {bits} bits")


def varint(value: int) -> bytes:
    """A zigzag varint of a signed number of up to 64 bits."""
    return unsigned_varint((value << 1) ^ (value >> 63))
