"""Stands between clients and a broker, and stops one chosen request on its way: the moment at which a test strikes.

Brokers of either kind take part by advertising the proxy's address. A request that is held is never delivered and an answer
that is held is never seen, so what dies at that moment dies at a known point of the protocol.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
import threading
from dataclasses import dataclass, field
from types import TracebackType
from typing import Final

from catchment.testing.loop_thread import LoopThread

END_TXN: Final = 26
_CHUNK_BYTES: Final = 1 << 16
_SECONDS: Final = 30.0
_HEAD: Final = struct.Struct(">ih")


@dataclass(frozen=True)
class Trap:
    """Holds a request of one kind, after some of its kind have passed; or the answer to it."""

    api_key: int
    passes: int = 0
    holds_answer: bool = False
    is_sprung: threading.Event = field(default_factory=threading.Event)


class WireProxy:
    """A port of the loopback that leads to another."""

    def __init__(self) -> None:
        self._trap: Trap | None = None
        self._passed = 0
        self._connections: dict[asyncio.StreamWriter, None] = {}
        self._broker_port = 0
        self._thread = LoopThread("wire-proxy")
        self._server = self._thread.run(asyncio.start_server(self._serve, "127.0.0.1", 0), _SECONDS)
        self.port: int = self._server.sockets[0].getsockname()[1]

    def __enter__(self) -> WireProxy:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._thread.run(self._close(), _SECONDS)
        self._thread.end(_SECONDS)

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def advertised(self) -> dict[str, str]:
        """The settings that a broker behind this proxy needs."""
        return {"advertised.listeners": f"PLAINTEXT://{self.bootstrap_servers}"}

    def lead_to(self, broker_port: int) -> None:
        self._broker_port = broker_port

    def arm(self, trap: Trap) -> None:
        """From now on; one trap at a time."""
        self._thread.run(self._set(trap), _SECONDS)

    def disarm(self) -> None:
        """Let everything through again. What was held is lost, and its connection with it."""
        self._thread.run(self._set(None), _SECONDS)

    async def _set(self, trap: Trap | None) -> None:
        if trap is None and self._trap is not None and self._trap.is_sprung.is_set():
            for writer in list(self._connections):
                writer.transport.abort()
        self._trap, self._passed = trap, 0

    async def _close(self) -> None:
        self._server.close()
        for writer in list(self._connections):
            writer.transport.abort()

    async def _serve(self, client_reader: asyncio.StreamReader, client_writer: asyncio.StreamWriter) -> None:
        self._connections[client_writer] = None
        try:
            broker_reader, broker_writer = await asyncio.open_connection("127.0.0.1", self._broker_port)
        except OSError:
            self._connections.pop(client_writer)
            client_writer.close()
            return
        self._connections[broker_writer] = None
        answers = asyncio.Event()
        answers.set()
        ways = [
            asyncio.ensure_future(self._requests(client_reader, broker_writer, answers)),
            asyncio.ensure_future(self._answers(broker_reader, client_writer, answers)),
        ]
        await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
        for writer in (client_writer, broker_writer):
            self._connections.pop(writer)
            writer.transport.abort()

    async def _requests(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: asyncio.Event
    ) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                head = await reader.readexactly(_HEAD.size)
                size, api_key = _HEAD.unpack(head)
                rest = await reader.readexactly(size + 4 - _HEAD.size)
                trap = self._trap
                if trap is not None and self._is_caught(trap, api_key):
                    if not trap.holds_answer:
                        trap.is_sprung.set()
                        await asyncio.Event().wait()
                    answers.clear()
                writer.write(head + rest)
                await writer.drain()

    async def _answers(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, answers: asyncio.Event
    ) -> None:
        with contextlib.suppress(OSError):
            while data := await reader.read(_CHUNK_BYTES):
                if not answers.is_set():
                    if self._trap is not None:
                        self._trap.is_sprung.set()
                    await asyncio.Event().wait()
                writer.write(data)
                await writer.drain()

    def _is_caught(self, trap: Trap, api_key: int) -> bool:
        if api_key != trap.api_key:
            return False
        self._passed += 1
        return self._passed == trap.passes + 1
