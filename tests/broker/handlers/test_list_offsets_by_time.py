"""A timestamp search decompresses batches in a worker: other clients are served, and concurrent changes apply."""

from __future__ import annotations

import threading
import time
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic
from kio.schema.types import BrokerId, TopicName
from kio.static.primitive import i8, i32, i64
from tests.broker.async_wire import AsyncWire, made_topic, produce_request, running_broker
from tests.broker.handlers.log_requests import milliseconds
from tests.waiting import until

from catchment.broker.server import BrokerServer
from catchment.ports.memory_disk import MemoryFile
from catchment.protocol.compression import Compression
from catchment.protocol.records import Record, encode_batch
from catchment.storage.segments.time_search import BatchToOpen, TimestampedOffset

NOW_MS = int(time.time() * 1000)
STALL_S = 0.05


def packed(*after_ms: int) -> bytes:
    """A compressed batch with a record for each time."""
    records = [Record(b"k", b"v", offset_delta=delta, timestamp_delta_ms=ms) for delta, ms in enumerate(after_ms)]
    return encode_batch(records, base_timestamp_ms=NOW_MS, compression=Compression.ZSTD)


def request_for(timestamp_ms: int) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=i32(0), current_leader_epoch=i32(-1), timestamp=i64(timestamp_ms))
    return ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(0),
        topics=(ListOffsetsTopic(name=TopicName("a"), partitions=(partition,)),),
        timeout=milliseconds(1000),
    )


async def _answer(wire: AsyncWire) -> Any:
    return (await wire.receive()).topics[0].partitions[0]


class Gate:
    """Blocks the workers until it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()

    async def was_entered(self) -> None:
        await until(lambda: self.entered.acquire(blocking=False))


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate()
    find = BatchToOpen.find

    def wait_and_find(batch: BatchToOpen, data: bytes, pause: Any) -> TimestampedOffset | None:
        made.entered.release()
        assert made.open.wait(30)
        return find(batch, data, pause)

    monkeypatch.setattr(BatchToOpen, "find", wait_and_find)
    yield made
    made.open.set()


@pytest.fixture
async def server() -> AsyncIterator[BrokerServer]:
    async with running_broker() as running:
        yield running


@pytest.fixture
async def wire(server: BrokerServer) -> AsyncIterator[AsyncWire]:
    """A connection to a topic of two batches of two records each."""
    await made_topic(server)
    connected = await AsyncWire.connect(server)
    for times in ((0, 10), (20, 30)):
        await connected.ask(produce_request("a", packed(*times)), 12)
    yield connected
    connected.close()


async def test_others_are_served_while_a_batch_is_searched(server: BrokerServer, wire: AsyncWire, gate: Gate) -> None:
    other = await AsyncWire.connect(server)
    await wire.send(request_for(NOW_MS + 5), 8)
    await gate.was_entered()
    answer = await other.ask(produce_request("a", packed(40)), 12)
    assert answer.responses[0].partition_responses[0].base_offset == 4
    gate.open.set()
    found = await _answer(wire)
    assert (found.error_code, found.offset, found.timestamp) == (ErrorCode.none, 1, NOW_MS + 10)
    other.close()


async def test_records_that_are_deleted_in_the_meantime_are_not_found(
    server: BrokerServer, wire: AsyncWire, gate: Gate
) -> None:
    await wire.send(request_for(NOW_MS + 5), 8)
    await gate.was_entered()
    server.services.replicas.find("a", 0).log.advance_log_start(2)
    gate.open.set()
    assert (await _answer(wire)).offset == 2


async def test_a_topic_that_is_deleted_in_the_meantime_is_unknown(
    server: BrokerServer, wire: AsyncWire, gate: Gate
) -> None:
    await wire.send(request_for(NOW_MS + 25), 8)
    await gate.was_entered()
    await server.services.controller.delete_topic("a")
    gate.open.set()
    assert (await _answer(wire)).error_code is ErrorCode.unknown_topic_or_partition


@pytest.mark.parametrize("timestamp_ms", [NOW_MS + 5, -3], ids=["a time", "the largest time"])
async def test_a_log_that_cannot_be_read_is_an_error_of_its_partition(
    wire: AsyncWire, monkeypatch: pytest.MonkeyPatch, timestamp_ms: int
) -> None:
    read = MemoryFile.read

    def fail(file: MemoryFile, position: int, size: int) -> bytes:
        raise OSError("the device is gone")

    def damage(file: MemoryFile, position: int, size: int) -> bytes:
        data = read(file, position, size)
        return data[:61] + bytes(len(data) - 61)

    with monkeypatch.context() as broken:
        broken.setattr(MemoryFile, "read", fail)
        await wire.send(request_for(timestamp_ms), 8)
        assert (await _answer(wire)).error_code is ErrorCode.kafka_storage_error
    with monkeypatch.context() as broken:
        broken.setattr(MemoryFile, "read", damage)
        await wire.send(request_for(timestamp_ms), 8)
        assert (await _answer(wire)).error_code is ErrorCode.corrupt_message
    await wire.send(request_for(timestamp_ms), 8)
    assert (await _answer(wire)).error_code is ErrorCode.none


async def test_the_loop_hardly_works_on_a_search_in_a_large_batch(server: BrokerServer) -> None:
    """In processor time of the loop's thread, which another load on the machine does not change."""
    await made_topic(server)
    wire = await AsyncWire.connect(server)
    await wire.ask(produce_request("a", packed(*[0] * 79_999, 5)), 12)
    await wire.send(request_for(NOW_MS + 5), 8)
    began_s, worked_s = time.thread_time(), time.process_time()
    found = await _answer(wire)
    spent_s, worked_s = time.thread_time() - began_s, time.process_time() - worked_s
    assert found.offset == 79_999
    assert worked_s > STALL_S, "the batch is too small to show anything"
    assert spent_s < STALL_S
    wire.close()
