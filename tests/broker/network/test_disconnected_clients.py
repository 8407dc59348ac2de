"""Requests that wait end with their client: the broker holds nothing for a disconnected client."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest
from kio.schema.describe_groups.v6.request import DescribeGroupsRequest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v6.request import FindCoordinatorRequest
from kio.schema.types import GroupId
from kio.static.primitive import i8
from tests.broker.async_wire import FOR_EVER_MS, AsyncWire, made_topic, produce_request, running_broker
from tests.broker.handlers.group_requests import join_request
from tests.broker.handlers.log_requests import batch, fetch_request
from tests.waiting import until

from catchment.broker.handlers import fetch
from catchment.ports.disk import SyncGroup
from catchment.ports.memory_disk import MemoryDisk

CLIENTS, AT_ONCE = 1000, 100


async def _joined(wire: AsyncWire) -> Any:
    """A member that waits for the next generation delays others: the first one joins at once."""
    request = FindCoordinatorRequest(key_type=i8(0), coordinator_keys=("g",))
    while (await wire.ask(request, 6)).coordinators[0].error_code is not ErrorCode.none:
        pass
    while (joined := await wire.ask(join_request(), 3)).error_code is not ErrorCode.none:
        pass
    return joined


@pytest.mark.parametrize("reset", [False, True], ids=["closed", "reset"])
async def test_fetches_of_a_thousand_disconnected_clients_wait_no_longer(reset: bool) -> None:
    async with running_broker() as server:
        partition = await made_topic(server)
        tasks = len(asyncio.all_tasks())
        for _ in range(CLIENTS // AT_ONCE):
            wires = [await AsyncWire.connect(server) for _ in range(AT_ONCE)]
            for wire in wires:
                await wire.send(fetch_request("a", (0, 0), max_wait_ms=FOR_EVER_MS), 12)
            await until(lambda: len(partition.readers) == AT_ONCE)
            for wire in wires:
                wire.close(reset=reset)
            await until(lambda: len(partition.readers) == 0)
        await until(lambda: len(asyncio.all_tasks()) <= tasks)
        await until(lambda: server.services.traffic.connections == 0)


async def test_a_fetch_of_a_client_that_closes_its_side_is_answered_at_once() -> None:
    async with running_broker() as server:
        partition = await made_topic(server)
        wire = await AsyncWire.connect(server)
        for _ in range(2):
            await wire.send(fetch_request("a", (0, 0), max_wait_ms=FOR_EVER_MS), 12)
        await until(lambda: len(partition.readers) == 1)
        wire.end_asking()
        for _ in range(2):
            assert (await wire.receive()).responses[0].partitions[0].error_code is ErrorCode.none
        await wire.closed()
        wire.close()


async def test_no_fetch_waits_longer_than_the_broker_allows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fetch, "MAX_WAIT_MS", 10)
    async with running_broker() as server:
        await made_topic(server)
        wire = await AsyncWire.connect(server)
        found = await wire.ask(fetch_request("a", (0, 0), max_wait_ms=FOR_EVER_MS), 12)
        assert found.responses[0].partitions[0].records == b""
        wire.close()


async def test_a_member_that_disconnects_during_a_rebalance_is_still_a_member() -> None:
    async with running_broker() as server:
        staying, going = await AsyncWire.connect(server), await AsyncWire.connect(server)
        await _joined(staying)
        tasks = len(asyncio.all_tasks())
        await going.send(join_request(), 3)
        await until(lambda: len(asyncio.all_tasks()) > tasks)
        going.close(reset=True)
        await until(lambda: len(asyncio.all_tasks()) <= tasks)
        request = DescribeGroupsRequest(groups=(GroupId("g"),), include_authorized_operations=False)
        described = (await staying.ask(request, 5)).groups[0]
        assert (described.group_state, len(described.members)) == ("PreparingRebalance", 2)
        staying.close()


async def test_a_half_closed_connection_is_not_kept_for_an_response_beyond_the_idle_limit() -> None:
    async with running_broker({"connections.max.idle.ms": "400"}) as server:
        staying, going = await AsyncWire.connect(server), await AsyncWire.connect(server)
        await _joined(staying)
        await going.send(join_request(), 3)
        going.end_asking()
        await going.closed()
        going.close()
        staying.close()


class _StuckDisk(MemoryDisk):
    """A disk whose device does not respond while `works` is not set."""

    def __init__(self) -> None:
        super().__init__()
        self.works = asyncio.Event()
        self.works.set()

    async def sync_groups(self, groups: Sequence[SyncGroup]) -> list[OSError | None]:
        await self.works.wait()
        return await super().sync_groups(groups)


async def test_an_append_stays_even_if_its_client_does_not_wait_for_the_disk() -> None:
    disk = _StuckDisk()
    async with running_broker(disk=disk) as server:
        partition = await made_topic(server)
        wire = await AsyncWire.connect(server)
        disk.works.clear()
        tasks = len(asyncio.all_tasks())
        await wire.send(produce_request("a", batch(b"kept"), timeout_ms=FOR_EVER_MS), 12)
        await until(lambda: len(partition.writers) == 1)
        wire.close(reset=True)
        # One task is left, which waits for the device.
        await until(lambda: len(asyncio.all_tasks()) <= tasks + 1)
        assert partition.high_watermark == 0
        disk.works.set()
        await until(lambda: partition.high_watermark == 1)
