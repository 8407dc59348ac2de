"""Connections that are dropped at the worst moment."""

from __future__ import annotations

import asyncio

import uvloop

from catchment.ports.network import Address
from catchment.testing.faulty_network import FaultyNetwork

_SECONDS = 30


class Receiver(asyncio.BufferedProtocol):
    """A protocol that takes whatever comes."""

    def __init__(self, made: asyncio.Event) -> None:
        self._made = made

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._made.set()

    def get_buffer(self, sizehint: int) -> bytearray:
        return bytearray(sizehint)

    def buffer_updated(self, nbytes: int) -> None:
        return


async def drop_twice() -> int:
    network = FaultyNetwork()
    made = asyncio.Event()
    listening = await network.listen(lambda: Receiver(made), Address("127.0.0.1", 0), backlog=1)
    await listening.start()
    async with asyncio.timeout(_SECONDS):
        _, writer = await asyncio.open_connection("127.0.0.1", listening.address.port)
        await made.wait()
    network.drop()
    count = network.connection_count
    network.drop()
    await network.die()
    writer.close()
    return count


def test_a_connection_that_has_just_ended_can_be_dropped_again() -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(drop_twice()) == 1
