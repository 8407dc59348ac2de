"""Produce and Fetch with more partitions than fit into one turn: other clients are served, and no order or change is lost."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.async_wire import FOR_EVER_MS, AsyncWire, produce_request, running_broker
from tests.broker.handlers.log_requests import batch, fetch_request, values_in
from tests.waiting import until

from catchment.broker.handlers import fetch
from catchment.broker.server import BrokerServer
from catchment.broker.turns import ITEMS_PER_TURN, in_turns
from catchment.cluster.new_topic import NewTopic
from catchment.replication.partition import Partition

COUNT = 2 * ITEMS_PER_TURN + 50
VALUES = [b"%d" % number for number in range(COUNT)]
BATCHES = [batch(value) for value in VALUES]


@pytest.fixture
async def server() -> AsyncIterator[BrokerServer]:
    async with running_broker() as running:
        yield running


async def made_partitions(
    server: BrokerServer, count: int = COUNT, settings: Mapping[str, str] | None = None
) -> list[Partition]:
    await server.services.controller.create_topic(NewTopic("a", count, settings=settings or {}))
    return [server.services.replicas.find("a", number) for number in range(count)]


def read(partition: Partition) -> list[bytes | None]:
    return values_in(partition.log.read(0, 1 << 20, partition.log.log_end_offset))


@pytest.mark.parametrize("settings", [{}, {"compression.type": "zstd"}], ids=["plain", "opened"])
@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_no_later_request_overtakes_a_produce_of_many_partitions(
    server: BrokerServer, acks: int, settings: dict[str, str]
) -> None:
    partitions = await made_partitions(server, settings=settings)
    wire = await AsyncWire.connect(server)
    await wire.send(produce_request("a", *BATCHES, acks=acks), 12)
    # To the last partition, which is appended in the last turn.
    second = [batch(b"second")] * COUNT
    await wire.send(produce_request("a", *second, acks=acks), 12)
    # Its frame takes the place of the first one in the receive buffer.
    await wire.send(produce_request("a", batch(b"third"), acks=acks), 12)
    for offset in range(2 if acks else 0):
        answers = (await wire.receive()).responses[0].partition_responses
        assert {answer.error_code for answer in answers} == {ErrorCode.none}
        assert [answer.base_offset for answer in answers] == [offset] * COUNT
    await until(lambda: partitions[0].high_watermark == 3)
    assert [read(partition)[:2] for partition in partitions] == [[value, b"second"] for value in VALUES]
    assert read(partitions[0]) == [b"0", b"second", b"third"]
    wire.close()


@pytest.mark.parametrize("acks", [0, 1, -1])
async def test_a_produce_of_many_partitions_is_appended_even_if_its_client_disconnects(
    server: BrokerServer, acks: int
) -> None:
    partitions = await made_partitions(server)
    tasks = len(asyncio.all_tasks())
    wire = await AsyncWire.connect(server)
    await wire.send(produce_request("a", *BATCHES, acks=acks), 12)
    await until(lambda: server.services.traffic.connections == 1)
    await until(lambda: len(asyncio.all_tasks()) > tasks)
    wire.close(reset=True)
    await until(lambda: partitions[-1].high_watermark == 1)
    assert [read(partition) for partition in partitions] == [[value] for value in VALUES]
    await until(lambda: len(asyncio.all_tasks()) <= tasks)


async def test_other_clients_are_served_between_the_turns_of_a_produce(server: BrokerServer) -> None:
    partitions = await made_partitions(server)
    ends: set[tuple[int, int]] = set()

    async def watch() -> None:
        while partitions[-1].log.log_end_offset == 0:
            ends.add((partitions[0].log.log_end_offset, partitions[ITEMS_PER_TURN].log.log_end_offset))
            await asyncio.sleep(0)

    watching = asyncio.create_task(watch())
    wire = await AsyncWire.connect(server)
    await wire.ask(produce_request("a", *BATCHES, acks=1), 12)
    await watching
    assert (1, 0) in ends
    wire.close()


async def test_a_produce_of_two_thousand_partitions_is_accepted(server: BrokerServer) -> None:
    partitions = await made_partitions(server, 2000)
    wire = await AsyncWire.connect(server)
    answer = await wire.ask(produce_request("a", *[batch(b"x")] * 2000), 12)
    assert [each.base_offset for each in answer.responses[0].partition_responses] == [0] * 2000
    assert sum(partition.high_watermark for partition in partitions) == 2000
    wire.close()


async def test_a_fetch_of_many_partitions_gets_the_records_of_all(server: BrokerServer) -> None:
    await made_partitions(server)
    wire = await AsyncWire.connect(server)
    await wire.ask(produce_request("a", *BATCHES), 12)
    asked = [(number, 0) for number in range(COUNT)]
    answer = await wire.ask(fetch_request("a", *asked, session=(0, 0)), 12)
    assert [values_in(each.records) for each in answer.responses[0].partitions] == [[value] for value in VALUES]
    following = await wire.ask(fetch_request("a", (7, 1), session=(answer.session_id, 1), max_bytes=1), 12)
    found = [each.partition_index for each in following.responses[0].partitions if each.records]
    assert found == [0]
    wire.close()


@pytest.mark.parametrize("search", [1, 2], ids=["the first look", "a later look"])
async def test_an_append_while_partitions_are_located_ends_the_wait(
    server: BrokerServer, monkeypatch: pytest.MonkeyPatch, search: int
) -> None:
    partitions = await made_partitions(server)
    searches = 0

    async def appending(items: Sequence[Any]) -> AsyncIterator[Sequence[Any]]:
        nonlocal searches
        searches += 1
        is_due = searches == search
        async for turn in in_turns(items):
            yield turn
            if is_due:
                # Unnoticed by this lookup: the first partition has been located already.
                is_due = False
                partitions[0].append(memoryview(BATCHES[0]), 1)

    monkeypatch.setattr(fetch, "in_turns", appending)
    wire = await AsyncWire.connect(server)
    asked = [(number, 0) for number in range(COUNT)]
    answer = await wire.ask(fetch_request("a", *asked, max_wait_ms=FOR_EVER_MS), 12)
    assert values_in(answer.responses[0].partitions[0].records) == [b"0"]
    assert searches == search + 1
    wire.close()
