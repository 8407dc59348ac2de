"""Decode random messages of every API, version and direction in a child process, and compare the guard with kio.

kio aborts the process when it allocates by a count that the guard has not checked. That is rare even where the two disagree
about the position of a byte, so the campaign looks for the disagreement itself: kio may reject what the guard accepts because of
a value (a null, invalid UTF-8), but never because of missing bytes or wrong lengths.

`python -m tests.protocol.decode_campaign SEED EXAMPLES JOURNAL` runs one. The journal holds the message that is being
decoded, so that it is known if the process dies.
"""

from __future__ import annotations

import json
import mmap
import resource
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode
from kio.serial.errors import BufferUnderflow, NegativeByteLength
from tests.protocol.messages import KINDS, versions

from catchment.protocol.apis import APIS
from catchment.protocol.codec import decode_request, decode_response
from catchment.protocol.errors import MalformedRequest, is_native_panic
from catchment.protocol.message_fields import MessageField, message_fields

ADDRESS_SPACE_BYTES: Final = 4 << 30
JOURNAL_BYTES: Final = 1 << 16
FIXED_SIZES: Final = {
    "int8": 1,
    "int16": 2,
    "uint16": 2,
    "int32": 4,
    "int64": 8,
    "float64": 8,
    "uuid": 16,
    "timedelta_i32": 4,
    "timedelta_i64": 8,
    "datetime_i64": 8,
}
DISAGREEMENTS: Final = ("kio has read", "arint is too long", "negative array length")
HOSTILE: Final = (
    b"\xff",
    b"\x80",
    b"\x7f",
    b"\x00",
    b"\xff\xff\xff\x7f",
    b"\x7f\xff\xff\xff",
    b"\x80\x80",
    b"\x80\x00",
    b"\x80\x80\x80\x80\x00",
    b"\xff\xff\xff\xff\x0f",
    b"\xff\xff\xff\xff\x7f",
    b"\xff\xff\xff\xfe",
    b"\xff\xfe",
    b"",
)


class Example(NamedTuple):
    kind: str
    api_key: int
    version: int
    wire: bytes

    def __str__(self) -> str:
        return f"{self.kind} {self.api_key} {self.version} {self.wire.hex()}"


class MessageForge:
    """Random bytes that follow the schema of a message, and are sometimes wrong."""

    def __init__(self, random: Random) -> None:
        self._random = random

    def examples(self, count: int) -> Iterator[Example]:
        shapes = [(kind, key, version) for key in APIS for version in versions(key) for kind in KINDS]
        for _ in range(count):
            kind, key, version = self._random.choice(shapes)
            wire = self._entity(KINDS[kind](key, version))
            if self._random.random() < 0.5:
                wire = self._mutated(wire)
            yield Example(kind, key, version, wire)

    def _mutated(self, wire: bytes) -> bytes:
        for _ in range(self._random.choice((1, 1, 2, 4))):
            position = self._random.randint(0, len(wire))
            hostile = self._random.choice((*HOSTILE, self._random.randbytes(1)))
            replaced = self._random.choice((0, 1, len(hostile), len(wire)))
            wire = wire[:position] + hostile + wire[position + replaced :]
        return wire

    def _is_twisted(self) -> bool:
        return self._random.random() < 0.01

    def _entity(self, entity_class: Any) -> bytes:
        flexible: bool = entity_class.__flexible__
        plain = [one for one in message_fields(entity_class) if one.tag is None]
        encoded = b"".join([self._field(one, flexible) for one in plain])
        return encoded + self._tags(entity_class) if flexible else encoded

    def _tags(self, entity_class: Any) -> bytes:
        known = [(one.tag, one) for one in message_fields(entity_class) if one.tag is not None]
        found = [self._tag(tag, self._field(one, flexible=True)) for tag, one in known if self._random.random() < 0.5]
        for _ in range(self._random.choice((0, 0, 0, 1, 3))):
            found += [self._tag(self._random.choice((50, 51, 9000)), self._random.randbytes(3))]
        self._random.shuffle(found)
        return self._varint(len(found) + self._is_twisted()) + b"".join(found)

    def _tag(self, tag: int, value: bytes) -> bytes:
        return self._varint(tag) + self._varint(len(value) + self._is_twisted()) + value

    def _field(self, one: MessageField, flexible: bool) -> bytes:
        if one.is_single_struct:
            return self._marked(one.struct) if one.is_nullable else self._entity(one.struct)
        if not one.is_array:
            return self._primitive(one.kafka_type or "", flexible)
        # No array of UUIDs may be null, though its elements may: both decoders have to reject it.
        if (one.is_nullable or one.kafka_type == "uuid") and self._random.random() < 0.2:
            return self._count(-1, flexible)
        items = [
            self._primitive(one.kafka_type or "", flexible) if one.struct is None else self._entity(one.struct)
            for _ in range(self._random.choice((0, 1, 1, 2)))
        ]
        return self._count(len(items) + self._is_twisted(), flexible) + b"".join(items)

    def _marked(self, entity_class: Any) -> bytes:
        """A struct after its marker: in Kafka, any negative marker means null."""
        if self._random.random() < 0.5:
            return bytes((self._random.randrange(0x80, 0x100),))
        return bytes((self._random.choice((0, 1, 1, 0x7F)),)) + self._entity(entity_class)

    def _primitive(self, kafka_type: str, flexible: bool) -> bytes:
        random = self._random
        if kafka_type == "bool":
            return bytes((random.choice((0, 1)) if not self._is_twisted() else 2,))
        if kafka_type == "error_code":
            return random.choice(list(ErrorCode)).value.to_bytes(2, signed=True)
        if size := FIXED_SIZES.get(kafka_type):
            if kafka_type.startswith(("datetime", "timedelta")) and not self._is_twisted():
                return random.getrandbits(31).to_bytes(size)
            return random.choice((bytes(size), b"\xff" * size, b"\x7f" + b"\xff" * (size - 1), random.randbytes(size)))
        text = random.choice(
            ("", "a", "\U0010ffff\x0f", "\U0010ffff" * 2, "\x00\x01\x7f", "éé\x05", "x" * 130)
        ).encode()
        length = -1 if self._is_twisted() else len(text) + self._is_twisted()
        if flexible:
            return self._varint(length + 1) + text
        return length.to_bytes(2 if kafka_type == "string" else 4, signed=True) + text

    def _count(self, count: int, flexible: bool) -> bytes:
        return self._varint(count + 1) if flexible else count.to_bytes(4, signed=True)

    def _varint(self, value: int) -> bytes:
        """An unsigned varint, sometimes with more bytes than it needs for the same value."""
        encoded = []
        for _ in range(self._random.choice((1, 1, 1, 1, 1, 1, 1, 2, 3, 5))):
            encoded.append(value & 0x7F | 0x80)
            value >>= 7
        while value:
            encoded.append(value & 0x7F | 0x80)
            value >>= 7
        encoded[-1] &= 0x7F
        return bytes(encoded)


def verdict(example: Example) -> str:
    """`accepted`, `malformed`, or the error of kio for bytes that the guard should have rejected."""
    decode = decode_request if example.kind == "request" else decode_response
    try:
        decode(example.api_key, example.version, example.wire)
    except MalformedRequest as malformed:
        cause = malformed.__cause__
        text = str(malformed)
        if isinstance(cause, BufferUnderflow | NegativeByteLength | KeyError | MemoryError):
            return repr(cause)
        if (cause is not None and is_native_panic(cause)) or any(sign in text for sign in DISAGREEMENTS):
            return text
        return "malformed"
    return "accepted"


class Outcome(NamedTuple):
    exit_code: int
    last: str
    """The message that was being decoded when the process ended."""
    accepted: int
    disagreements: list[str]
    errors: str


def run_in_child(seed: int, examples: int, journal: Path) -> Outcome:
    journal.write_bytes(bytes(JOURNAL_BYTES))
    command = [sys.executable, "-m", __name__, str(seed), str(examples), str(journal)]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    report = json.loads(finished.stdout) if finished.returncode == 0 else {"accepted": 0, "disagreements": []}
    last = journal.read_bytes().rstrip(b"\x00").decode()
    return Outcome(finished.returncode, last, errors=finished.stderr[-2000:], **report)


def main(seed: int, examples: int, journal_path: Path) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    disagreements: list[str] = []
    accepted_count = 0
    with journal_path.open("r+b") as file, mmap.mmap(file.fileno(), JOURNAL_BYTES) as journal:
        for example in MessageForge(Random(seed)).examples(examples):
            line = str(example).encode()[: JOURNAL_BYTES - 1]
            journal[: len(line) + 1] = line + b"\x00"
            found = verdict(example)
            accepted_count += found == "accepted"
            if found not in ("accepted", "malformed") and len(disagreements) < 10:
                disagreements.append(f"{found}: {example}")
    sys.stdout.write(json.dumps({"accepted": accepted_count, "disagreements": disagreements}))


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), Path(sys.argv[3]))
