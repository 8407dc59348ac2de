"""Clients send arbitrary bytes. The broker stays up, its memory stays bounded, and well-behaved clients notice nothing.

Each run forges other frames, some 250 for each version of each API. Set CATCHMENT_HOSTILE_FRAMES for a longer run, such
as 1000000, and CATCHMENT_HOSTILE_SEED to repeat one.
"""

from __future__ import annotations

import asyncio
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random

import pytest
from confluent_kafka.admin import AdminClient, NewTopic
from tests.broker.child_broker import ChildBroker
from tests.broker.hostile_client import HostileClient, Supply, close
from tests.broker.hostile_frames import Forge
from tests.broker.ledger import Auditor, Ledger, assert_none_lost

from catchment.broker.handlers import CLAIMS
from catchment.protocol.headers import encode_request_header

FRAMES = int(os.environ.get("CATCHMENT_HOSTILE_FRAMES", "60000"))
SEED = int(os.environ.get("CATCHMENT_HOSTILE_SEED", str(Random().getrandbits(32))))
CLIENTS = 4
MEMORY_BYTES = 300 * 1024 * 1024
TOPIC = "honest"
PARTITIONS = 2
PATIENCE_S = 15.0
"""Half of the time that clients wait for a response, and far more than a busy machine needs."""
API_VERSIONS_KEY = 18


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[ChildBroker]:
    # A hostile client may request topics by any name, and the broker would create them.
    with ChildBroker(tmp_path, {"auto.create.topics.enable": "false"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
        admin.create_topics([NewTopic(TOPIC, PARTITIONS, 1)])[TOPIC].result(30)
        yield broker


@pytest.fixture
def honest_client(broker: ChildBroker) -> Iterator[Ledger]:
    """Writes throughout the test; at the end, all its records must be there."""
    ledger = Ledger(broker.bootstrap_servers, TOPIC, PARTITIONS, pause_s=0.002)
    ledger.start()
    ledger.wait_for_more(timeout_s=30)
    yield ledger
    ledger.finish()
    assert broker.is_alive, broker.log_tail()
    assert not ledger.failures
    assert ledger.acknowledged
    assert ledger.slowest_s < PATIENCE_S
    auditor = Auditor(broker.bootstrap_servers, TOPIC, PARTITIONS)
    auditor.read_on()
    assert_none_lost(ledger.acknowledged.items(), auditor.places)


def api_versions_frame() -> bytes:
    frame = encode_request_header(API_VERSIONS_KEY, 0, 7, "honest")
    return struct.pack(">i", len(frame)) + frame


async def read_answer(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(30):
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        return await reader.readexactly(size)


@pytest.mark.timeout(1500 + FRAMES // 100)
@pytest.mark.usefixtures("honest_client")
async def test_no_frame_of_any_api_and_version_harms_the_broker(broker: ChildBroker) -> None:
    served = [(key, claim.oldest, claim.newest) for key, claim in CLAIMS.items()]
    supply = Supply(Forge(served, Random(SEED)).frames(FRAMES))
    clients = [HostileClient(broker.port, supply) for _ in range(CLIENTS)]
    await asyncio.gather(*(asyncio.to_thread(client.run) for client in clients))
    assert broker.is_alive, f"seed {SEED}\n{broker.log_tail()}"
    assert "Traceback" not in broker.log_path.read_text(), f"seed {SEED}: a handler failed where it should have refused"
    assert broker.resident_bytes(at_most_ever=True) < MEMORY_BYTES, f"seed {SEED}"
    assert sum(client.answered for client in clients) > FRAMES // 20, "next to nothing was a valid request"
    assert sum(client.hung_up for client in clients) > FRAMES // 20, "next to nothing was refused"


@pytest.mark.usefixtures("honest_client")
async def test_a_frame_of_an_impossible_size_ends_its_connection_before_it_arrives(broker: ChildBroker) -> None:
    for size in (-1, -(2**31), 2**31 - 1, 100 * 1024 * 1024 + 1):
        reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
        writer.write(struct.pack(">i", size))
        async with asyncio.timeout(30):
            with pytest.raises((asyncio.IncompleteReadError, ConnectionError)):
                await reader.readexactly(1)
        await close(writer)


@pytest.mark.usefixtures("honest_client")
async def test_unfinished_frames_hold_no_memory_for_their_announced_length(broker: ChildBroker) -> None:
    before = broker.resident_bytes()
    connections = [await asyncio.open_connection("127.0.0.1", broker.port) for _ in range(200)]
    for _, unfinished in connections:
        unfinished.write(struct.pack(">i", 100 * 1024 * 1024) + bytes(100))
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    writer.write(api_versions_frame())
    assert await read_answer(reader)
    assert broker.resident_bytes() - before < 200 * 1024 * 1024
    await close(writer)
    for _, unfinished in connections:
        await close(unfinished)


@pytest.mark.usefixtures("honest_client")
async def test_a_client_that_sends_byte_by_byte_gets_its_response(broker: ChildBroker) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    for byte in api_versions_frame():
        writer.write(bytes([byte]))
        await writer.drain()
        await asyncio.sleep(0.002)
    assert (await read_answer(reader))[:4] == struct.pack(">i", 7)
    await close(writer)


@pytest.mark.usefixtures("honest_client")
async def test_a_client_that_stops_sending_still_gets_its_responses(broker: ChildBroker) -> None:
    reader, writer = await asyncio.open_connection("127.0.0.1", broker.port)
    writer.write(api_versions_frame() * 3)
    writer.write_eof()
    for _ in range(3):
        assert (await read_answer(reader))[:4] == struct.pack(">i", 7)
    async with asyncio.timeout(30):
        assert await reader.read(1) == b""
    await close(writer)


@pytest.mark.usefixtures("honest_client")
async def test_a_client_that_never_reads_responses_is_no_longer_read_from(broker: ChildBroker) -> None:
    before = broker.resident_bytes()
    _, writer = await asyncio.open_connection("127.0.0.1", broker.port, limit=1024)
    writer.transport.set_write_buffer_limits(high=1 << 20)
    is_held_up = False
    for _ in range(2000):
        writer.write(api_versions_frame() * 1000)
        try:
            async with asyncio.timeout(1):
                await writer.drain()
        except TimeoutError:
            is_held_up = True
            break
    assert is_held_up
    assert broker.resident_bytes() - before < 100 * 1024 * 1024
    await close(writer)
