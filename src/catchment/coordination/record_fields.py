"""What the values of several kinds of coordinator records are made of, in Kafka's flexible encoding.

Every value begins with its version, and 0 is the only one so far.
"""

from __future__ import annotations

import struct
from collections.abc import Collection, Iterable
from typing import Final

from catchment.coordination.replayed import UnreadableRecord
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.wire import WireReader, array_length, string

VERSION: Final = b"\x00\x00"
EPOCHS_AND_STATE: Final = struct.Struct(">iib")
"""How the assignment of a member begins: its epoch, the one before, and its state."""
SMALLEST_TOPIC_BYTES: Final = 18
"""An id, an empty array or string, and no tags."""
_NUMBER_BYTES: Final = 4


class Reading:
    """A reader of a value's fields; whatever cannot be read is an unreadable record."""

    def __init__(self, value: bytes, what: str) -> None:
        self._value = value
        self._what = what

    def __enter__(self) -> WireReader:
        if self._value[: len(VERSION)] != VERSION:
            raise UnreadableRecord(f"{self._what} in a version that is not known")
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
