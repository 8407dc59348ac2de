"""Varints at an offset: unsigned ones in flexible messages, zigzag ones inside record batches.

kio's readers accept unsigned varints of 35 bits, which Kafka rejects.
"""

from __future__ import annotations

from catchment.protocol.errors import MalformedRequest
from catchment.protocol.wire import unsigned_varint


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
