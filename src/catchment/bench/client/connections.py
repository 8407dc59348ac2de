"""Many connections, few requests in flight: ListOffsets over all of them in turn, so that only their number varies."""

from __future__ import annotations

import asyncio
import io
import itertools

import uvloop
from kio.schema.list_offsets.v7.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.types import BrokerId, TopicName
from kio.serial import entity_writer
from kio.static.primitive import i8, i32, i64

_IN_FLIGHT = 10
_LATEST = -1
# API key 2, version 7, correlation id 1, no client id, no tagged fields.
_HEADER = b"\x00\x02\x00\x07\x00\x00\x00\x01\xff\xff\x00"


def list_offsets_frame(topic: str) -> bytes:
    """A request for the end of partition 0."""
    partition = ListOffsetsPartition(partition_index=i32(0), timestamp=i64(_LATEST))
    request = ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(0),
        topics=(ListOffsetsTopic(name=TopicName(topic), partitions=(partition,)),),
    )
    body = io.BytesIO()
    entity_writer(ListOffsetsRequest)(body, request)
    frame = _HEADER + body.getvalue()
    return len(frame).to_bytes(4, "big") + frame


async def _exchange(host: str, port: int, frame: bytes, connections: int, requests: int) -> None:
    streams = [await asyncio.open_connection(host, port) for _ in range(connections)]
    numbers = itertools.count()

    async def work(worker: int) -> None:
        # Each worker has its own connections, so that no two wait for a response on the same one.
        mine = itertools.cycle(streams[worker::_IN_FLIGHT])
        while next(numbers) < requests:
            reader, writer = next(mine)
            writer.write(frame)
            await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))

    await asyncio.gather(*(work(worker) for worker in range(_IN_FLIGHT)))


def exchange(bootstrap_servers: str, topic: str, connections: int, requests: int) -> None:
    """Send that many requests over that many connections, at least one for each request in flight."""
    host, _, port = bootstrap_servers.rpartition(":")
    uvloop.run(_exchange(host, int(port), list_offsets_frame(topic), max(connections, _IN_FLIGHT), requests))
