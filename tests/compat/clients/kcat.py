"""kcat, as Debian ships it: an older librdkafka behind a command."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.compat.clients.client import (
    MAX_REQUEST_BYTES,
    TIMEOUT_S,
    Client,
    Record,
    Stored,
    check_is_last,
)

# Bytes that no record of these tests holds.
_KEY_END, _RECORD_END = b"\x1f", b"\x1e"
_HEAD = re.compile(rb"(\d+) (\d+) (-?\d+) (-?\d+)\n")


class Kcat(Client):
    sets_timestamps = False

    def write(
        self,
        topic: str,
        records: Sequence[Record],
        *,
        codec: str = "none",
        acks: str = "all",
        idempotent: bool = False,
        timestamps_ms: Sequence[int] | None = None,
    ) -> None:
        options = ["-P", "-z", codec, "-X", f"acks={acks}", "-X", f"message.max.bytes={MAX_REQUEST_BYTES}"]
        options += ["-X", f"enable.idempotence={str(idempotent).lower()}"]
        for record in records:
            self._write_one(topic, record, options)

    def _write_one(self, topic: str, record: Record, options: Sequence[str]) -> None:
        """Headers, and whether nothing means null, are the same for all records of a call: so one call a record."""
        headers = [
            part
            for name, value in record.headers
            for part in ("-H", name if value is None else f"{name}={value.decode()}")
        ]
        if record.value and record.key is None:
            # A file is one record, whatever its bytes.
            with tempfile.NamedTemporaryFile() as file:
                Path(file.name).write_bytes(record.value)
                self._run(*options, *headers, "-t", topic, "-p", "0", file.name)
            return
        nulls = ["-Z"] if None in (record.key, record.value) else []
        line = (record.key or b"") + _KEY_END + (record.value or b"") + _RECORD_END
        delimiters = ("-K", r"\x1f", "-D", r"\x1e")
        self._run(*options, *headers, *nulls, *delimiters, "-t", topic, "-p", "0", standard_input=line)

    def read(self, topic: str, count: int, *, first_offset: int = 0) -> list[Stored]:
        place = ("-C", "-q", "-t", topic, "-p", "0", "-o", str(first_offset), "-c", str(count))
        # Only the lengths make keys and values of any bytes readable, and only JSON says what the rest is.
        bodies = list(_parse_bodies(self._run(*place, "-f", r"%o %T %K %S\n%k%s\n")))
        envelopes = [json.loads(line) for line in self._run(*place, "-J").splitlines()]
        check_is_last(topic, count, bodies)
        return [
            Stored(
                Record(value, key, _headers(envelope.get("headers", []))),
                offset,
                timestamp_ms,
                envelope["tstype"] == "logappend",
            )
            for (offset, timestamp_ms, key, value), envelope in zip(bodies, envelopes, strict=True)
        ]

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        answer = self._run("-Q", "-t", f"{topic}:0:{timestamp_ms}").decode()
        found = re.search(r"offset (-?\d+)", answer)
        assert found is not None, answer
        offset = int(found[1])
        return offset if offset >= 0 else None

    def _run(self, *arguments: str, standard_input: bytes = b"") -> bytes:
        command = shutil.which("kcat")
        assert command is not None
        finished = subprocess.run(
            [command, "-b", self.bootstrap_servers, *arguments],
            input=standard_input,
            capture_output=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert finished.returncode == 0, finished.stderr.decode(errors="replace")
        return finished.stdout


def _parse_bodies(output: bytes) -> Iterator[tuple[int, int, bytes | None, bytes | None]]:
    position = 0
    while position < len(output):
        head = _HEAD.match(output, position)
        assert head is not None, output[position : position + 80]
        offset, timestamp_ms, key_size, value_size = map(int, head.groups())
        key_end = head.end() + max(0, key_size)
        value_end = key_end + max(0, value_size)
        key = output[head.end() : key_end] if key_size >= 0 else None
        value = output[key_end:value_end] if value_size >= 0 else None
        yield offset, timestamp_ms, key, value
        position = value_end + 1


def _headers(flat: Sequence[str | None]) -> tuple[tuple[str, bytes | None], ...]:
    """kcat lists names and values in turn."""
    names_and_values = zip(flat[::2], flat[1::2], strict=True)
    return tuple((str(name), None if value is None else value.encode()) for name, value in names_and_values)
