"""A server on the loopback that runs a script for each connection, however wrong."""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import timedelta
from typing import Any

from kio.schema.api_versions.v4.response import ApiVersion, ApiVersionsResponse
from kio.schema.errors import ErrorCode
from kio.static.primitive import i16, i32Timedelta

from catchment.protocol.codec import encode_response
from catchment.protocol.headers import RequestHeader, encode_response_header, parse_request_header

NO_TIME = i32Timedelta.parse(timedelta(0))


class Peer:
    """The server's end of one connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection

    def request(self) -> RequestHeader:
        """The header of the next request. The script ends when the client disconnects."""
        length = int.from_bytes(self._exactly(4), "big")
        return parse_request_header(self._exactly(length))

    def respond(self, asked: RequestHeader, response: Any) -> None:
        self.send(frame_of(asked, response, asked.api_version))

    def send(self, data: bytes) -> None:
        self._connection.sendall(data)

    def greet(self) -> None:
        """Send the versions of Metadata, without a finalized `transaction.version`."""
        self.respond(self.request(), versions_response(ErrorCode.none))

    def _exactly(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            received = self._connection.recv(size - len(data))
            if not received:
                raise ConnectionError
            data += received
        return data


def frame_of(asked: RequestHeader, response: Any, version: int) -> bytes:
    """The frame of a response, with its length."""
    header = encode_response_header(asked.correlation_id, asked.api_key, asked.api_version)
    frame = header + encode_response(response, version)
    return len(frame).to_bytes(4, "big") + frame


def versions_response(code: ErrorCode) -> ApiVersionsResponse:
    metadata = ApiVersion(api_key=i16(3), min_version=i16(0), max_version=i16(12))
    return ApiVersionsResponse(error_code=code, api_keys=(metadata,), throttle_time=NO_TIME)


@contextmanager
def scripted(script: Callable[[Peer], None]) -> Iterator[str]:
    """Run the script for every connection, each on a thread. Yields the address."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=_accept, args=(listener, script), daemon=True).start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        # The thread blocks in accept until a client connects: closing alone would not wake it.
        listener.shutdown(socket.SHUT_RDWR)


def _accept(listener: socket.socket, script: Callable[[Peer], None]) -> None:
    with suppress(OSError):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=_run, args=(connection, script), daemon=True).start()


def _run(connection: socket.socket, script: Callable[[Peer], None]) -> None:
    with connection, suppress(OSError):
        script(Peer(connection))
