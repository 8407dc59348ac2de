"""The Java client, through the console producer and consumer and the offset shell that come with Kafka."""

from __future__ import annotations

from collections.abc import Sequence

from tests.compat.clients.client import (
    MAX_REQUEST_BYTES,
    Client,
    Record,
    Stored,
    check_is_last,
)
from tests.compat.java_tool import java_tool

_NULL = "<null>"
_NO_HEADERS = b"NO_HEADERS"
_FIELD_END, _RECORD_END, _HEADER_END = "\x1f", "\x1e", "\x1d"


class JavaConsole(Client):
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
        client = {
            "acks": acks,
            "enable.idempotence": str(idempotent).lower(),
            "max.request.size": str(MAX_REQUEST_BYTES),
            "linger.ms": "20",
        }
        reader = {
            "parse.key": "true",
            "parse.headers": "true",
            "key.separator": _FIELD_END,
            "headers.delimiter": _FIELD_END,
            "headers.separator": _HEADER_END,
            "null.marker": _NULL,
        }
        java_tool(
            "ConsoleProducer",
            *("--bootstrap-server", self.bootstrap_servers, "--topic", topic, "--compression-codec", codec),
            *_options("--command-property", client),
            *_options("--reader-property", reader),
            standard_input=b"".join(map(_line, records)),
        )

    def read(self, topic: str, count: int, *, first_offset: int = 0) -> list[Stored]:
        formatter = {
            "print.timestamp": "true",
            "print.offset": "true",
            "print.headers": "true",
            "print.key": "true",
            "key.separator": _FIELD_END,
            "headers.separator": _HEADER_END,
            "line.separator": _RECORD_END,
            "null.literal": _NULL,
        }
        output = java_tool(
            "consumer.ConsoleConsumer",
            *("--bootstrap-server", self.bootstrap_servers, "--topic", topic, "--partition", "0"),
            *("--offset", str(first_offset), "--max-messages", str(count)),
            *_options("--formatter-property", formatter),
        )
        found = [_parse(text) for text in output.split(_RECORD_END.encode())[:-1]]
        check_is_last(topic, count, found)
        return found

    def offset_at(self, topic: str, timestamp_ms: int) -> int | None:
        place = ("--bootstrap-server", self.bootstrap_servers, "--topic-partitions", f"{topic}:0")
        output = java_tool("GetOffsetShell", *place, "--time", str(timestamp_ms)).decode().strip()
        return int(output.rpartition(":")[2]) if output else None


def _options(name: str, values: dict[str, str]) -> list[str]:
    return [part for key, value in values.items() for part in (name, f"{key}={value}")]


def _line(record: Record) -> bytes:
    def text(value: bytes | None) -> bytes:
        return _NULL.encode() if value is None else value

    headers = _HEADER_END.encode().join(name.encode() + b":" + text(value) for name, value in record.headers)
    parts = (headers or _NULL.encode(), text(record.key), text(record.value))
    return _FIELD_END.encode().join(parts) + b"\n"


def _parse(text: bytes) -> Stored:
    timestamp, offset, headers, key, value = text.split(_FIELD_END.encode(), 4)
    kind, _, timestamp_ms = timestamp.partition(b":")
    pairs: list[tuple[str, bytes | None]] = []
    if headers != _NO_HEADERS:
        for header in headers.split(_HEADER_END.encode()):
            name, _, header_value = header.partition(b":")
            pairs.append((name.decode(), _bytes(header_value)))
    record = Record(_bytes(value), _bytes(key), tuple(pairs))
    return Stored(record, int(offset.partition(b":")[2]), int(timestamp_ms), kind == b"LogAppendTime")


def _bytes(text: bytes) -> bytes | None:
    return None if text == _NULL.encode() else text
