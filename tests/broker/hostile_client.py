"""Sends frames to a broker that may hang up on any of them, and sees to it that each has had its turn."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Iterator
from itertools import islice

_PIPELINED_FRAMES = 40
_SILENCE_SECONDS = 0.5


async def close(writer: asyncio.StreamWriter) -> None:
    """Close at once, and wait until the socket is gone."""
    writer.transport.abort()
    with contextlib.suppress(ConnectionError):
        await writer.wait_closed()


class HostileClient:
    """One of several that share a supply of frames."""

    def __init__(self, port: int, frames: Iterator[bytes]) -> None:
        self._port = port
        self._frames = frames
        self.answered = 0
        self.hung_up = 0
        self.silent = 0

    async def run(self) -> None:
        while batch := list(islice(self._frames, _PIPELINED_FRAMES)):
            while batch:
                batch = await self._send(batch)

    async def _send(self, batch: list[bytes]) -> list[bytes]:
        """Send all at once; return those behind the one at which the broker hung up or fell silent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        answered = 0
        try:
            writer.write(b"".join(batch))
            for _ in batch:
                async with asyncio.timeout(_SILENCE_SECONDS):
                    (size,) = struct.unpack(">i", await reader.readexactly(4))
                    await reader.readexactly(size)
                answered += 1
        except (asyncio.IncompleteReadError, ConnectionError):
            self.hung_up += 1
        except TimeoutError:
            # A request that wants no answer, or one that waits for something that will not come.
            self.silent += 1
        finally:
            await close(writer)
        self.answered += answered
        return batch[answered + 1 :]
