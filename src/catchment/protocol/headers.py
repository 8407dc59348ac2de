"""The headers of requests and responses. They are parsed without kio, for speed.

Request headers have version 2 (with tagged fields) if the API's version is flexible, else 1. The client id is a non-compact
nullable string in both. Response headers have version 1 if flexible, else 0; only ApiVersions always has version 0, because
a client does not know the versions of the broker yet (KIP-511).
"""

from __future__ import annotations

from struct import Struct
from typing import Final, NamedTuple

from catchment.protocol.apis import API_VERSIONS_KEY, APIS, is_flexible
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.wire import read_unsigned_varint

_FIXED_PART: Final = Struct(">hhih")
_CORRELATION_ID: Final = Struct(">i")
_NO_TAGS: Final = b"\x00"
_MOST_TAGS: Final = 1_000
"""Kafka has defined none for headers yet."""
_FLEXIBLE: Final = frozenset(
    (key, version)
    for key, api in APIS.items()
    for version in range(api.oldest, api.newest + 1)
    if is_flexible(key, version)
)


class RequestHeader(NamedTuple):
    """The header of a request, whose body starts at `body_offset`."""

    api_key: int
    api_version: int
    correlation_id: int
    client_id: str | None
    body_offset: int


def parse_request_header(frame: memoryview | bytes) -> RequestHeader:
    """Parse the header of a frame without its length prefix.

    An unknown key or version still has a header, so that the broker can respond with UNSUPPORTED_VERSION; `body_offset` is then
    after the client id, and the rest must not be parsed.
    """
    end = len(frame)
    if end < _FIXED_PART.size:
        raise MalformedRequest("the frame is shorter than a request header")
    api_key, api_version, correlation_id, client_id_length = _FIXED_PART.unpack_from(frame)
    offset = _FIXED_PART.size
    client_id: str | None = None
    if client_id_length >= 0:
        offset += client_id_length
        if offset > end:
            raise MalformedRequest("the client id is longer than the frame")
        try:
            client_id = str(frame[_FIXED_PART.size : offset], "utf-8")
        except UnicodeDecodeError:
            raise MalformedRequest("the client id is not UTF-8") from None
    elif client_id_length != -1:
        raise MalformedRequest("the client id has a negative length")
    if (api_key, api_version) in _FLEXIBLE:
        offset = skip_tagged_fields(frame, offset)
    return RequestHeader(api_key, api_version, correlation_id, client_id, offset)


def skip_tagged_fields(data: memoryview | bytes, offset: int) -> int:
    """Skip a section of tagged fields and return the offset after it (KIP-482: unknown tags are ignored)."""
    if offset < len(data) and data[offset] == 0:
        return offset + 1
    count, offset = read_unsigned_varint(data, offset)
    if count > _MOST_TAGS or count * 2 > len(data) - offset:
        raise MalformedRequest(f"{count} tagged fields in {len(data) - offset} bytes")
    for _ in range(count):
        _, offset = read_unsigned_varint(data, offset)
        size, offset = read_unsigned_varint(data, offset)
        offset += size
        if offset > len(data):
            raise MalformedRequest("a tagged field is longer than the frame")
    return offset


def encode_request_header(api_key: int, api_version: int, correlation_id: int, client_id: str | None) -> bytes:
    """The header of a request."""
    if client_id is None:
        header = _FIXED_PART.pack(api_key, api_version, correlation_id, -1)
    else:
        name = client_id.encode()
        header = _FIXED_PART.pack(api_key, api_version, correlation_id, len(name)) + name
    return header + _NO_TAGS if is_flexible(api_key, api_version) else header


def encode_response_header(correlation_id: int, api_key: int, api_version: int) -> bytes:
    """The header of a response."""
    if (api_key, api_version) in _FLEXIBLE and api_key != API_VERSIONS_KEY:
        return _CORRELATION_ID.pack(correlation_id) + _NO_TAGS
    return _CORRELATION_ID.pack(correlation_id)


def parse_response_header(frame: memoryview | bytes, api_key: int, api_version: int) -> tuple[int, int]:
    """Parse the header of a response of this API and version: its correlation id, and the offset of the body."""
    if len(frame) < _CORRELATION_ID.size:
        raise MalformedRequest("the frame is shorter than a response header")
    (correlation_id,) = _CORRELATION_ID.unpack_from(frame)
    if api_key != API_VERSIONS_KEY and is_flexible(api_key, api_version):
        return correlation_id, skip_tagged_fields(frame, _CORRELATION_ID.size)
    return correlation_id, _CORRELATION_ID.size
