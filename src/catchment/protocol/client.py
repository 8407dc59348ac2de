"""The client side of a connection without I/O: requests to bytes, and received bytes to responses.

Peers, tests and the simulator use it over their own transports. Responses are in the order of the requests, as Kafka guarantees,
and are decoded only on demand, so that code that only copies records need not decode them.
"""

from __future__ import annotations

from collections import deque
from struct import Struct
from typing import Any, Final, NamedTuple

from kio.schema.errors import ErrorCode

from catchment.protocol.apis import API_VERSIONS_KEY
from catchment.protocol.codec import decode_response, encode_request
from catchment.protocol.errors import MalformedRequest
from catchment.protocol.headers import encode_request_header, parse_response_header

DEFAULT_FRAME_LIMIT_BYTES: Final = 100 * 1024 * 1024

_LENGTH: Final = Struct(">i")
_ERROR_CODE: Final = Struct(">h")
_PRODUCE_KEY: Final = 0
_LARGEST_CORRELATION_ID: Final = 2**31 - 1


class Response(NamedTuple):
    """One response: the request that it belongs to, and its body."""

    correlation_id: int
    api_key: int
    api_version: int
    body: bytes | memoryview

    def decode(self) -> Any:
        """The response as the newest class of its API."""
        version = self.api_version
        # A broker that does not support the version responds with version 0, which every client can read (KIP-511).
        if self.api_key == API_VERSIONS_KEY and self.body[:2] == _ERROR_CODE.pack(ErrorCode.unsupported_version):
            version = 0
        return decode_response(self.api_key, version, self.body)


class _Pending(NamedTuple):
    correlation_id: int
    api_key: int
    api_version: int


class ClientProtocol:
    """Encodes requests and parses responses, for one connection."""

    def __init__(self, client_id: str | None = None, frame_limit_bytes: int = DEFAULT_FRAME_LIMIT_BYTES) -> None:
        self._client_id = client_id
        self._frame_limit_bytes = frame_limit_bytes
        self._next_correlation_id = 0
        self._pending: deque[_Pending] = deque()
        self._received = bytearray()

    @property
    def pending(self) -> int:
        """How many requests have no response yet."""
        return len(self._pending)

    def request(self, request: Any, version: int) -> bytes:
        """The frame of a request, given as the newest class. Produce with acks=0 has no response."""
        is_answered = request.__api_key__ != _PRODUCE_KEY or request.acks != 0
        return self.request_body(request.__api_key__, version, encode_request(request, version), is_answered)

    def request_body(self, api_key: int, version: int, body: bytes, is_answered: bool = True) -> bytes:
        """The frame of a request whose body is encoded already."""
        correlation_id = self._next_correlation_id
        self._next_correlation_id = (correlation_id + 1) & _LARGEST_CORRELATION_ID
        header = encode_request_header(api_key, version, correlation_id, self._client_id)
        if is_answered:
            self._pending.append(_Pending(correlation_id, api_key, version))
        return _LENGTH.pack(len(header) + len(body)) + header + body

    def receive(self, data: memoryview | bytes) -> list[Response]:
        """Parse received bytes and return the complete responses. Raises MalformedRequest if they are malformed."""
        self._received += data
        responses = []
        position = 0
        while len(self._received) - position >= _LENGTH.size:
            (length,) = _LENGTH.unpack_from(self._received, position)
            if not 0 <= length <= self._frame_limit_bytes:
                raise MalformedRequest(f"a response claims {length} bytes")
            end = position + _LENGTH.size + length
            if end > len(self._received):
                break
            responses.append(self.parse_response(bytes(self._received[position + _LENGTH.size : end])))
            position = end
        del self._received[:position]
        return responses

    def parse_response(self, frame: memoryview | bytes) -> Response:
        """The response in a complete frame without its length. The body is a slice of the frame."""
        if not self._pending:
            raise MalformedRequest("a response to no request")
        expected = self._pending.popleft()
        correlation_id, body_offset = parse_response_header(frame, expected.api_key, expected.api_version)
        if correlation_id != expected.correlation_id:
            raise MalformedRequest(f"response {correlation_id} where {expected.correlation_id} was expected")
        return Response(*expected, frame[body_offset:])
