"""Batches that a topic validates or rewrites are prepared in a worker: other clients are served, and the order is kept."""

from __future__ import annotations

import asyncio
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
from tests.broker.handlers.log_requests import fetch_request, milliseconds, values_in
from tests.waiting import until

from catchment.broker import batch_preparation
from catchment.broker.server import BrokerServer
from catchment.cluster.new_topic import NewTopic
from catchment.protocol.batch import read_header
from catchment.protocol.compression import Compression
from catchment.protocol.records import Record, encode_batch, numbered
from catchment.storage.config import LogConfig
from catchment.storage.validation import PreparedBatch, prepare

COMPACTED = {"cleanup.policy": "compact"}
STALL_S = 0.05


def packed(*values: bytes, **fields: Any) -> bytes:
    """A compressed batch of records with keys: too costly to decompress on the event loop, whatever its size."""
    return encode_batch(numbered((b"k", value) for value in values), compression=Compression.ZSTD, **fields)


class Gate:
    """Blocks the workers until it is opened."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.open = threading.Event()

    def __call__(self, batch: memoryview, config: LogConfig, now_ms: int, pause: Any) -> PreparedBatch:
        self.entered.release()
        assert self.open.wait(30)
        return prepare(batch, config, now_ms, pause)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    made = Gate()
    monkeypatch.setattr(batch_preparation, "prepare", made)
    yield made
    made.open.set()


@pytest.fixture
async def server() -> AsyncIterator[BrokerServer]:
    async with running_broker() as running:
        yield running


def end_request(topic: str) -> ListOffsetsRequest:
    partition = ListOffsetsPartition(partition_index=i32(0), current_leader_epoch=i32(-1), timestamp=i64(-1))
    return ListOffsetsRequest(
        replica_id=BrokerId(-1),
        isolation_level=i8(0),
        topics=(ListOffsetsTopic(name=TopicName(topic), partitions=(partition,)),),
        timeout=milliseconds(1000),
    )


async def _until_entered(gate: Gate) -> None:
    await until(lambda: gate.entered.acquire(blocking=False))


async def test_other_clients_are_served_while_a_batch_is_prepared(server: BrokerServer, gate: Gate) -> None:
    partition = await made_topic(server, **COMPACTED)
    busy, other = await AsyncWire.connect(server), await AsyncWire.connect(server)
    await busy.send(produce_request("a", packed(b"slow")), 12)
    await _until_entered(gate)
    small = encode_batch(numbered([(b"k", b"small")]))
    answer = await other.ask(produce_request("a", small), 12)
    assert answer.responses[0].partition_responses[0].base_offset == 0
    found = await other.ask(fetch_request("a", (0, 0)), 12)
    assert values_in(found.responses[0].partitions[0].records) == [b"small"]
    gate.open.set()
    answer = await busy.receive()
    assert answer.responses[0].partition_responses[0].base_offset == 1
    assert partition.log.log_end_offset == 2
    for wire in (busy, other):
        wire.close()


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_no_later_request_of_the_connection_overtakes(server: BrokerServer, gate: Gate, acks: int) -> None:
    partition = await made_topic(server, **COMPACTED)
    wire = await AsyncWire.connect(server)
    small = encode_batch(numbered([(b"k", b"second")]))
    await wire.send(produce_request("a", packed(b"first"), acks=acks), 12)
    await wire.send(produce_request("a", small, acks=acks), 12)
    await wire.send(end_request("a"), 8)
    await _until_entered(gate)
    gate.open.set()
    if acks:
        answers = [(await wire.receive()).responses[0].partition_responses[0] for _ in range(2)]
        assert [answer.base_offset for answer in answers] == [0, 1]
    await wire.receive()
    records = partition.log.read(0, 1 << 20, 2)
    assert values_in(records) == [b"first", b"second"]
    wire.close()


async def test_batches_of_an_idempotent_producer_keep_their_order(server: BrokerServer) -> None:
    partition = await made_topic(server, **COMPACTED)
    wire = await AsyncWire.connect(server)
    for sequence in range(20):
        data = packed(b"%d" % sequence * 2000, producer_id=7, producer_epoch=0, base_sequence=sequence)
        await wire.send(produce_request("a", data), 12)
    answers = [(await wire.receive()).responses[0].partition_responses[0] for _ in range(20)]
    assert [(answer.error_code, answer.base_offset) for answer in answers] == [
        (ErrorCode.none, offset) for offset in range(20)
    ]
    assert partition.log.log_end_offset == 20
    wire.close()


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_a_batch_is_appended_even_if_its_client_disconnects(server: BrokerServer, gate: Gate, acks: int) -> None:
    partition = await made_topic(server, **COMPACTED)
    wire = await AsyncWire.connect(server)
    tasks = len(asyncio.all_tasks())
    await wire.send(produce_request("a", packed(b"sent"), acks=acks), 12)
    await _until_entered(gate)
    wire.close(reset=True)
    await until(lambda: server.services.traffic.connections == 0)
    gate.open.set()
    await until(lambda: partition.high_watermark == 1)
    await until(lambda: len(asyncio.all_tasks()) <= tasks)


async def test_a_topic_that_is_deleted_in_the_meantime_is_unknown(server: BrokerServer, gate: Gate) -> None:
    await made_topic(server, **COMPACTED)
    wire = await AsyncWire.connect(server)
    await wire.send(produce_request("a", packed(b"late")), 12)
    await _until_entered(gate)
    await server.services.controller.delete_topic("a")
    gate.open.set()
    answer = (await wire.receive()).responses[0].partition_responses[0]
    assert (answer.error_code, answer.base_offset) == (ErrorCode.unknown_topic_or_partition, -1)
    wire.close()


async def test_settings_that_change_in_the_meantime_apply(server: BrokerServer, gate: Gate) -> None:
    partition = await made_topic(server, **COMPACTED)
    wire = await AsyncWire.connect(server)
    await wire.send(produce_request("a", packed(b"x" * 100)), 12)
    await _until_entered(gate)
    await server.services.controller.change_topic_settings(
        "a", lambda given: {**given, "compression.type": "lz4", "message.timestamp.type": "LogAppendTime"}
    )
    gate.open.set()
    answer = (await wire.receive()).responses[0].partition_responses[0]
    header = read_header(partition.log.read(0, 1 << 20, 1))
    assert (answer.error_code, header.compression) == (ErrorCode.none, Compression.LZ4)
    assert header.is_log_append_time
    wire.close()


async def test_one_partition_in_a_worker_costs_the_others_of_the_request_nothing(server: BrokerServer) -> None:
    await server.services.controller.create_topic(NewTopic("a", 3, settings=COMPACTED))
    wire = await AsyncWire.connect(server)
    keyless = encode_batch(numbered([(None, b"no key"), (b"k", b"good"), (None, b"no key")]), compression=1)
    batches = (packed(b"0"), keyless, encode_batch(numbered([(b"k", b"2")])))
    answers = (await wire.ask(produce_request("a", *batches), 12)).responses[0].partition_responses
    assert [answer.error_code for answer in answers] == [ErrorCode.none, ErrorCode.invalid_record, ErrorCode.none]
    assert [error.batch_index for error in answers[1].record_errors] == [0, 2]
    wire.close()


@pytest.mark.parametrize("settings", [COMPACTED, {"compression.type": "lz4"}], ids=["compacted", "recompressed"])
async def test_the_loop_hardly_works_on_a_large_batch(server: BrokerServer, settings: dict[str, str]) -> None:
    """In processor time of the loop's thread, which another load on the machine does not change."""
    await made_topic(server, **settings, **{"max.message.bytes": "64000000"})
    # Many records for the key check; they unpack to forty times their size.
    one = Record(b"k", b"v" * 100)
    data = encode_batch([one._replace(offset_delta=delta) for delta in range(80_000)], compression=Compression.ZSTD)
    wire = await AsyncWire.connect(server)
    frame = produce_request("a", data)
    await wire.send(frame, 12)
    began_s, worked_s = time.thread_time(), time.process_time()
    answer = (await wire.receive()).responses[0].partition_responses[0]
    spent_s, worked_s = time.thread_time() - began_s, time.process_time() - worked_s
    assert answer.error_code is ErrorCode.none
    assert worked_s > STALL_S, "the batch is too small to show anything"
    assert spent_s < STALL_S
    wire.close()
