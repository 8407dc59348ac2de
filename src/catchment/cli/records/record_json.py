"""Records as JSON lines: what `consume --json` writes, `produce --input json` reads.

Keys, values and header values that are UTF-8 stand as strings, others as `{"base64": "…"}`, and null as null, so that a
record survives the round trip byte for byte.
"""

import base64
import binascii
import json
from typing import Any, NamedTuple

from confluent_kafka import TIMESTAMP_CREATE_TIME, TIMESTAMP_LOG_APPEND_TIME, Message

from catchment.cli.records.format_string import headers_of

MAX_PARTITION = 2**31 - 1
MAX_LONG = 2**63 - 1

_TIMESTAMP_TYPES = {TIMESTAMP_CREATE_TIME: "CreateTime", TIMESTAMP_LOG_APPEND_TIME: "LogAppendTime"}


class RecordInput(NamedTuple):
    """One record to send. No timestamp means now; no partition means that the key decides."""

    value: bytes | None
    key: bytes | None = None
    headers: list[tuple[str, bytes | None]] | None = None
    partition: int | None = None
    timestamp_ms: int | None = None


class RecordJsonError(ValueError):
    """A line that is not a record, with the reason."""


def encode_bytes(data: bytes | None) -> str | dict[str, str] | None:
    if data is None:
        return None
    try:
        return data.decode()
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(data).decode()}


def record_line(message: Message) -> bytes:
    timestamp_type, timestamp_ms = message.timestamp()
    record = {
        "topic": message.topic(),
        "partition": message.partition(),
        "offset": message.offset(),
        "timestamp": timestamp_ms,
        "timestamp_type": _TIMESTAMP_TYPES.get(timestamp_type, "NoTimestamp"),
        "key": encode_bytes(message.key()),
        "value": encode_bytes(message.value()),
        "headers": [[name, encode_bytes(value)] for name, value in headers_of(message)],
    }
    return json.dumps(record, ensure_ascii=False).encode(errors="surrogatepass") + b"\n"


def parse_record_line(line: bytes) -> RecordInput:
    """The record in a line of JSON; topic and offset are ignored: the command line and the log determine them."""
    try:
        record = json.loads(line)
    except ValueError as error:
        raise RecordJsonError(f"not JSON: {error}") from error
    if not isinstance(record, dict):
        raise RecordJsonError("not a JSON object with a value")
    headers = record.get("headers") or []
    if isinstance(headers, dict):
        headers = list(headers.items())
    return RecordInput(
        _decode_bytes(record.get("value"), "value"),
        _decode_bytes(record.get("key"), "key"),
        _decode_headers(headers),
        _integer(record, "partition", MAX_PARTITION),
        _integer(record, "timestamp", MAX_LONG),
    )


def _decode_bytes(value: Any, name: str) -> bytes | None:
    if value is None:
        return None
    if isinstance(value, str):
        return value.encode()
    if isinstance(value, dict) and list(value) == ["base64"]:
        try:
            return base64.b64decode(value["base64"], validate=True)
        except (binascii.Error, TypeError, ValueError) as error:
            raise RecordJsonError(f"{name} is not base64: {error}") from error
    raise RecordJsonError(f'{name} must be a string, null or {{"base64": "…"}}')


def _decode_headers(headers: Any) -> list[tuple[str, bytes | None]]:
    if not isinstance(headers, list):
        raise RecordJsonError("headers must be a list of [name, value]")
    decoded = []
    for header in headers:
        match header:
            case [str(name), value] | (str(name), value):
                decoded.append((name, _decode_bytes(value, f"header {name}")))
            case _:
                raise RecordJsonError("headers must be a list of [name, value]")
    return decoded


def _integer(record: dict[str, Any], name: str, highest: int) -> int | None:
    value = record.get(name)
    if value is None:
        return None
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= highest:
        raise RecordJsonError(f"{name} must be a whole number from 0 to {highest}")
    return value
