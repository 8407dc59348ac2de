"""Sockets with faults: they reset new or current connections, or delay what arrives.

Each connection's protocol is wrapped; without a fault, the wrapper only forwards calls. A refused connection is reset as soon as
it is accepted, so that the broker keeps its port.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
import struct
from collections import deque
from collections.abc import Callable
from typing import cast

from typing_extensions import Buffer

from catchment.ports.network import Address, Listening, SocketNetwork

_HELD_BACK_BYTES = 64 * 1024


class FaultyNetwork:
    """A network for one broker. The attributes may be set from any thread; the methods are for the broker's loop."""

    def __init__(self) -> None:
        self.refuses = False
        self.delay_s = 0.0
        self._connections: dict[FaultyConnection, None] = {}
        self._listening: list[Listening] = []

    async def listen(
        self,
        factory: Callable[[], asyncio.BufferedProtocol],
        address: Address,
        *,
        backlog: int,
        tls: ssl.SSLContext | None = None,
    ) -> Listening:
        listening = await SocketNetwork().listen(
            lambda: FaultyConnection(self, factory()), address, backlog=backlog, tls=tls
        )
        self._listening.append(listening)
        return listening

    def connected(self, connection: FaultyConnection) -> None:
        self._connections[connection] = None

    def disconnected(self, connection: FaultyConnection) -> None:
        self._connections.pop(connection, None)

    def drop(self) -> None:
        """Reset all current connections."""
        for connection in list(self._connections):
            connection.reset()

    async def die(self) -> None:
        """Stop listening and reset every connection, as the kernel does for a killed process."""
        for listening in self._listening:
            await listening.close()
        self._listening.clear()
        self.drop()

    def forget_connections(self) -> None:
        """The loop has ended, perhaps before every connection was closed: the next loop must not find them here."""
        self._connections.clear()


class FaultyConnection(asyncio.BufferedProtocol):
    """A wrapper between a transport and the broker's protocol."""

    __slots__ = ("_buffer", "_ends", "_held_back", "_inner", "_network", "transport")

    def __init__(self, network: FaultyNetwork, inner: asyncio.BufferedProtocol) -> None:
        self._network = network
        self._inner = inner
        self._buffer: bytearray | None = None
        self._held_back: deque[bytes] = deque()
        self._ends = False

    def reset(self) -> None:
        """Reset the connection instead of closing it in order: unsent data is dropped."""
        connection = self.transport.get_extra_info("socket")
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)
        self._network.connected(self)
        self._inner.connection_made(transport)
        if self._network.refuses:
            self.reset()

    def connection_lost(self, exc: Exception | None) -> None:
        self._network.disconnected(self)
        self._held_back.clear()
        self._inner.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> Buffer:
        if self._network.delay_s or self._held_back:
            self._buffer = bytearray(_HELD_BACK_BYTES)
            return self._buffer
        self._buffer = None
        return self._inner.get_buffer(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        if self._buffer is None:
            self._inner.buffer_updated(nbytes)
            return
        self._held_back.append(bytes(self._buffer[:nbytes]))
        asyncio.get_running_loop().call_later(self._network.delay_s, self._deliver)

    def eof_received(self) -> bool | None:
        if not self._held_back:
            return self._inner.eof_received()
        self._ends = True
        return True

    def pause_writing(self) -> None:
        self._inner.pause_writing()

    def resume_writing(self) -> None:
        self._inner.resume_writing()

    def _deliver(self) -> None:
        """Forward the oldest delayed data. There is one call for each piece, so the order is kept."""
        if not self._held_back:
            return
        piece = self._held_back.popleft()
        position = 0
        while position < len(piece) and not self.transport.is_closing():
            space = memoryview(self._inner.get_buffer(len(piece) - position))
            count = min(space.nbytes, len(piece) - position)
            space[:count] = piece[position : position + count]
            position += count
            self._inner.buffer_updated(count)
        if self._ends and not self._held_back and not self._inner.eof_received():
            self.transport.close()
