"""Sends frames to a broker that may close the connection on any of them, until every frame was processed."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Iterator
from itertools import cycle, islice
from threading import Lock

_FRAMES_AT_ONCE = (1, 1, 1, 1, 1, 1, 1, 1, 8)
"""Mostly one per connection: responses may be lost when the broker closes the connection."""
_SILENCE_SECONDS = 0.5


async def close(writer: asyncio.StreamWriter) -> None:
    """Close at once, and wait until the socket is gone."""
    writer.transport.abort()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


class Supply:
    """Frames that several threads take from."""

    def __init__(self, frames: Iterator[bytes]) -> None:
        self._frames = frames
        self._counts = cycle(_FRAMES_AT_ONCE)
        self._lock = Lock()

    def take(self) -> list[bytes]:
        with self._lock:
            return list(islice(self._frames, next(self._counts)))


class HostileClient:
    """One of several clients with a shared supply. It blocks: most frames take a connection, and a plain socket is the cheapest."""

    def __init__(self, port: int, supply: Supply) -> None:
        self._address = ("127.0.0.1", port)
        self._supply = supply
        self.answered = 0
        self.hung_up = 0
        self.silent = 0

    def run(self) -> None:
        while batch := self._supply.take():
            while batch:
                batch = batch[self._send(batch) :]

    def _send(self, batch: list[bytes]) -> int:
        """Send all at once; return how many were processed: those with a response, and the one that ended the connection."""
        answered = 0
        with socket.create_connection(self._address, timeout=30) as connection:
            connection.settimeout(_SILENCE_SECONDS)
            try:
                connection.sendall(b"".join(batch))
                while answered < len(batch):
                    (size,) = struct.unpack(">i", self._receive(connection, 4))
                    self._receive(connection, size)
                    answered += 1
            except TimeoutError:
                # A request without a response, or one that waits for something that will not happen.
                self.silent += 1
            except ConnectionError:
                self.hung_up += 1
        self.answered += answered
        return answered + 1

    def _receive(self, connection: socket.socket, size: int) -> bytes:
        data = connection.recv(size, socket.MSG_WAITALL)
        if len(data) < size:
            raise ConnectionResetError
        return data
