"""A broker on the event loop of a test, and a client beside it: for tests that look into the broker while it serves."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any

from catchment.broker.server import BrokerServer
from catchment.ports.disk import Disk
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.client import Answer, ClientProtocol
from catchment.settings.broker import BrokerSettings

_DEADLINE_S = 150.0
_RESET = struct.pack("ii", 1, 0)


@contextlib.asynccontextmanager
async def running_broker(
    settings: Mapping[str, str] | None = None, *, disk: Disk | None = None
) -> AsyncIterator[BrokerServer]:
    defaults = {
        "listeners": "PLAINTEXT://127.0.0.1:0",
        "log.dirs": "/logs",
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
    }
    server = BrokerServer(BrokerSettings({**defaults, **(settings or {})}), disk=disk or MemoryDisk())
    await server.start()
    try:
        yield server
    finally:
        await server.close()


class AsyncWire:
    """One connection, at any version of any API."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._protocol = ClientProtocol("test")
        self._answers: deque[Answer] = deque()

    @classmethod
    async def connect(cls, server: BrokerServer) -> AsyncWire:
        address = next(iter(server.endpoints.values()))
        return cls(*await asyncio.open_connection(address.host, address.port))

    async def send(self, request: Any, version: int) -> None:
        self._writer.write(self._protocol.request(request, version))
        await self._writer.drain()

    async def receive(self) -> Any:
        async with asyncio.timeout(_DEADLINE_S):
            while not self._answers:
                data = await self._reader.read(1 << 20)
                if not data:
                    raise ConnectionError("the broker closed the connection")
                self._answers += self._protocol.receive(data)
        return self._answers.popleft().decode()

    async def ask(self, request: Any, version: int) -> Any:
        await self.send(request, version)
        return await self.receive()

    def end_asking(self) -> None:
        """Close the sending side only."""
        self._writer.write_eof()

    async def closed(self) -> None:
        """Wait until the broker has closed the connection."""
        async with asyncio.timeout(_DEADLINE_S):
            assert await self._reader.read() == b""

    def close(self, *, reset: bool = False) -> None:
        """Go: with an orderly end, or as a client that was killed."""
        if reset:
            connected: socket.socket = self._writer.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._writer.close()
