"""Which APIs a server serves, asked of the server itself with one ApiVersions request."""

from __future__ import annotations

import socket
import struct

_API_VERSIONS = 18
_TIMEOUT_SECONDS = 10
_REQUEST = struct.pack(">ihhih", 10, _API_VERSIONS, 0, 1, -1)
_ROW = struct.Struct(">hhh")


def served_api_keys(host: str, port: int) -> frozenset[int]:
    """The API keys in the answer to ApiVersions 0, the one version that every server knows how to answer."""
    with (
        socket.create_connection((host, port), timeout=_TIMEOUT_SECONDS) as connection,
        connection.makefile("rwb") as stream,
    ):
        stream.write(_REQUEST)
        stream.flush()
        size = int.from_bytes(stream.read(4), "big")
        answer = stream.read(size)
    count = int.from_bytes(answer[6:10], "big")
    return frozenset(_ROW.unpack_from(answer, 10 + index * _ROW.size)[0] for index in range(count))
