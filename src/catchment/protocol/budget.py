"""The memory budget of a message: how much its objects may take, in proportion to its bytes.

An element of one byte on the wire becomes an object of a hundred bytes. So every decoder counts the objects that it is about to
create, with their sizes in CPython, and rejects a message that would exceed its budget. A request may take four times its own
size, up to a bound, plus a fixed allowance. That is enough for a request about 50,000 partitions, and bounds the time of
decoding too: no struct counts less than `SMALLEST_STRUCT_BYTES`.

Responses have a larger allowance: our client chooses the servers it reads from, and the metadata of 200,000 partitions is large.
"""

from __future__ import annotations

from typing import Final

REQUEST_ALLOWANCE_BYTES: Final = 10 * 1024 * 1024
RESPONSE_ALLOWANCE_BYTES: Final = 512 * 1024 * 1024
MOST_COUNTED_BYTES: Final = 4 * 1024 * 1024
"""Only Produce requests are larger, and their records are not decoded to objects."""
_BYTES_A_BYTE: Final = 4

POINTER_BYTES: Final = 8
TEXT_BYTES: Final = 64
"""A string or bytes object without its content, which is counted among the message's bytes."""
ARRAY_BYTES: Final = 64
SMALL_ITEM_BYTES: Final = 64
"""A number or a short string in an array."""
TAG_BYTES: Final = 1024
"""An unknown tagged field takes no memory, but two microseconds: as much time as a kilobyte of objects."""
EDIT_BYTES: Final = 256
"""A position where a message is rewritten: the edit, and the pieces around it."""
SMALLEST_STRUCT_BYTES: Final = 160
_INTEGER_BYTES: Final = 32
PRIMITIVE_BYTES: Final = {
    "bool": 0,
    "int8": _INTEGER_BYTES,
    "int16": _INTEGER_BYTES,
    "uint16": _INTEGER_BYTES,
    "int32": _INTEGER_BYTES,
    "int64": _INTEGER_BYTES,
    "float64": 32,
    "uuid": 112,
    "error_code": 0,
    "timedelta_i32": 48,
    "timedelta_i64": 48,
    "datetime_i64": 64,
}


def request_memory(size_bytes: int) -> int:
    """The bytes of objects that a request of this size may take."""
    return REQUEST_ALLOWANCE_BYTES + _BYTES_A_BYTE * min(size_bytes, MOST_COUNTED_BYTES)


def response_memory(size_bytes: int) -> int:
    """The bytes of objects that a response of this size may take."""
    return RESPONSE_ALLOWANCE_BYTES + _BYTES_A_BYTE * size_bytes


def struct_bytes(field_count: int) -> int:
    """A struct without the values of its fields: the object with its slots, and the overhead of the garbage collector."""
    return 32 + POINTER_BYTES * field_count
