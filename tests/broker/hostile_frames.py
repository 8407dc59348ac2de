"""Malformed frames: valid requests of every API and version that are mutated, cut or extended, and random bytes."""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from io import BytesIO
from random import Random
from typing import Any
from uuid import UUID

from kio.serial import entity_writer

from catchment.protocol.apis import request_class
from catchment.protocol.headers import encode_request_header
from catchment.protocol.message_fields import MessageField, message_fields

_EDGES = (
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff",
    b"\xff\xff\xff\xfe",
    b"\x80\x00\x00\x00",
    b"\x00\x98\x96\x80",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80\x80\x80\x80\x40",
    b"\x7f\xff",
    b"\xff\xff",
    b"\x00",
)
"""Counts, lengths and varints at the ends of their ranges and beyond."""
_WORDS = ("", "a", "hostile", "é", ".", "..", "x" * 250, "cleanup.policy", "hostile-1")


class Forge:
    """Generates random frames. `served` holds the key, oldest and newest version of each API."""

    def __init__(self, served: Sequence[tuple[int, int, int]], random: Random) -> None:
        self._random = random
        self._valid = [
            self.valid_frame(key, version)
            for key, oldest, newest in served
            for version in range(oldest, newest + 1)
            for _ in range(4)
        ]

    def frames(self, count: int) -> Iterator[bytes]:
        """Frames with their length prefix. Every API and version appears equally often."""
        makers = (
            self._bent,
            self._bent,
            self._stuffed,
            self._cut,
            self._spliced,
            self._tagged,
            self._noise,
            self._unknown,
        )
        for number in range(count):
            frame = makers[number % len(makers)](bytearray(self._valid[(number // len(makers)) % len(self._valid)]))
            yield struct.pack(">i", len(frame)) + frame

    def valid_frame(self, key: int, version: int) -> bytes:
        message_class = request_class(key, version)
        body = BytesIO()
        entity_writer(message_class)(body, self._message(message_class))
        return encode_request_header(key, version, self._random.getrandbits(31), "hostile") + body.getvalue()

    def _bent(self, frame: bytearray) -> bytes:
        for _ in range(self._random.choice((1, 1, 2, 8))):
            frame[self._random.randrange(len(frame))] = self._random.getrandbits(8)
        return bytes(frame)

    def _stuffed(self, frame: bytearray) -> bytes:
        position = self._random.randint(8, len(frame))
        edge = self._random.choice(_EDGES)
        replaced = self._random.choice((0, len(edge)))
        return bytes(frame[:position] + edge + frame[position + replaced :])

    def _cut(self, frame: bytearray) -> bytes:
        return bytes(frame[: self._random.randrange(len(frame))])

    def _spliced(self, frame: bytearray) -> bytes:
        other = self._random.choice(self._valid)
        return bytes(frame[: self._random.randint(8, len(frame))]) + other[self._random.randrange(len(other)) :]

    def _tagged(self, frame: bytearray) -> bytes:
        """A valid frame whose last tagged fields have an unknown one, or one with a wrong size."""
        size = self._random.choice((0, 1, 3, 127))
        claimed = size if self._random.random() < 0.5 else self._random.choice((size + 1, 127))
        return bytes(frame[:-1]) + b"\x01\x7f" + bytes([claimed]) + self._random.randbytes(size)

    def _noise(self, frame: bytearray) -> bytes:
        return self._random.randbytes(self._random.choice((0, 1, 7, 8, 30, 300, 3000)))

    def _unknown(self, frame: bytearray) -> bytes:
        """An API or version that is not served."""
        struct.pack_into(
            ">h", frame, self._random.choice((0, 2)), self._random.choice((-1, 99, 32767, -32768, 15, 300))
        )
        return bytes(frame)

    def _message(self, message_class: Any) -> Any:
        return message_class(**{one.name: self._value(one) for one in message_fields(message_class)})

    def _value(self, one: MessageField) -> Any:
        random = self._random
        if one.name == "validate_only":
            # A frame that happens to be valid must not fill the broker with topics of ten thousand partitions.
            return True
        if (one.is_nullable or (one.is_array and one.kafka_type == "uuid")) and random.random() < 0.2:
            return None
        if one.struct is not None:
            if not one.is_array:
                return self._message(one.struct)
            return tuple(self._message(one.struct) for _ in range(random.choice((0, 1, 1, 2, 5))))
        if one.is_array:
            return tuple(self._plain(one.kafka_type or "") for _ in range(random.choice((0, 1, 3))))
        if one.name in ("max_wait", "timeout"):
            return timedelta(milliseconds=random.choice((0, 1, 10)))
        return self._plain(one.kafka_type or "")

    def _plain(self, kafka_type: str) -> Any:
        random = self._random
        if kafka_type == "string":
            return random.choice(_WORDS)
        if kafka_type in ("bytes", "records"):
            return random.randbytes(random.choice((0, 1, 61, 200)))
        if kafka_type == "uuid":
            return UUID(int=random.getrandbits(128))
        if kafka_type == "bool":
            return random.random() < 0.5
        if kafka_type == "float64":
            return random.uniform(-1e9, 1e9)
        if kafka_type.startswith("timedelta"):
            return timedelta(milliseconds=random.choice((0, 1, 10)))
        if kafka_type.startswith("datetime"):
            return datetime.fromtimestamp(random.randint(0, 1 << 31), UTC)
        if kafka_type.startswith("uint"):
            return random.choice((0, 1, 2, 100))
        return random.choice((0, 0, 0, 1, 1, 2, 3, 100, -1, -1, -2, -128))
