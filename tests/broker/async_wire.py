"""A broker on the event loop of a test, and a client beside it: for tests that inspect the running broker."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections import deque
from collections.abc import AsyncIterator, Mapping
from typing import Any

from kio.schema.produce.v13.request import PartitionProduceData, ProduceRequest
from kio.schema.types import TopicName
from kio.static.primitive import Records, i16, i32
from tests.broker.handlers.log_requests import milliseconds

from catchment.broker.server import BrokerServer
from catchment.cluster.new_topic import NewTopic
from catchment.ports.disk import Disk
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.adapters.produce import TopicProduceData
from catchment.protocol.client import ClientProtocol, Response
from catchment.replication.partition import Partition
from catchment.settings.broker import BrokerSettings

FOR_EVER_MS = (1 << 31) - 1
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
        self._answers: deque[Response] = deque()

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
        """Disconnect: orderly, or like a killed client."""
        if reset:
            connected: socket.socket = self._writer.get_extra_info("socket")
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        self._writer.close()


async def made_topic(server: BrokerServer, name: str = "a", **settings: str) -> Partition:
    await server.services.controller.create_topic(NewTopic(name, 1, settings=settings))
    return server.services.replicas.find(name, 0)


def produce_request(topic: str, *batches: bytes, acks: int = -1, timeout_ms: int = 30_000) -> ProduceRequest:
    data = tuple(PartitionProduceData(index=i32(number), records=Records(each)) for number, each in enumerate(batches))
    return ProduceRequest(
        acks=i16(acks),
        timeout=milliseconds(timeout_ms),
        topic_data=(TopicProduceData(name=TopicName(topic), partition_data=data, topic_id=None),),
    )
