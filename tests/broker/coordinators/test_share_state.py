"""The share coordinator on a running broker: it creates its topic, prunes its log, and deletes states of deleted topics."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode
from tests.waiting import until

from catchment.broker.coordinators.internal_topics import SHARE_STATE_TOPIC
from catchment.broker.coordinators.share_state import ShareStateCoordinator
from catchment.broker.server import BrokerServer
from catchment.cluster.new_topic import NewTopic
from catchment.coordination.share_state.batches import ACKNOWLEDGED, NO_START, StateBatch
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.errors import ApiError
from catchment.settings.broker import BrokerSettings
from catchment.storage.layout import format_uuid
from catchment.storage.log import Log

SETTINGS = {
    "listeners": "PLAINTEXT://127.0.0.1:0",
    "log.dirs": "/logs",
    "share.coordinator.snapshot.update.records.per.snapshot": "5",
    "share.coordinator.state.topic.num.partitions": "1",
}
EPOCH = 0


@contextlib.asynccontextmanager
async def broker_on(disk: MemoryDisk, settings: dict[str, str] | None = None) -> AsyncIterator[BrokerServer]:
    server = BrokerServer(BrokerSettings({**SETTINGS, **(settings or {})}), disk=disk)
    await server.start()
    try:
        yield server
    finally:
        await server.close()


def log_of(server: BrokerServer) -> Log:
    return server.services.replicas.find(SHARE_STATE_TOPIC, 0).log


async def make_topic(server: BrokerServer, name: str = "a") -> UUID:
    return (await server.services.controller.create_topic(NewTopic(name, 1))).id


async def acknowledge(states: ShareStateCoordinator, topic_id: UUID, count: int, group_id: str = "g") -> None:
    for offset in range(count):
        batch = StateBatch(offset, offset, ACKNOWLEDGED, 1)
        await states.write(group_id, topic_id, 0, EPOCH, EPOCH, NO_START, [batch])


async def test_the_first_state_creates_the_topic() -> None:
    async with broker_on(MemoryDisk()) as server:
        topic_id = await make_topic(server)
        await server.services.share_state.initialize("g", topic_id, 0, EPOCH, 4)
        made = server.services.controller.image.topics[SHARE_STATE_TOPIC]
        assert made.settings["cleanup.policy"] == "delete"
        assert made.settings["retention.ms"] == "-1"
        assert made.settings["min.insync.replicas"] == "1"
        assert (await server.services.share_state.read("g", topic_id, 0, EPOCH)).start_offset == 4


async def test_many_first_states_at_once_share_one_topic() -> None:
    async with broker_on(MemoryDisk(), {"share.coordinator.state.topic.num.partitions": "7"}) as server:
        topic_id = await make_topic(server)
        states = server.services.share_state
        await asyncio.gather(*[states.initialize(f"g{number}", topic_id, 0, EPOCH, number) for number in range(20)])
        found = [(await states.read_summary(f"g{number}", topic_id, 0)).start_offset for number in range(20)]
        assert found == list(range(20))


async def test_a_state_is_in_the_partition_where_kafka_looks_for_it() -> None:
    async with broker_on(MemoryDisk(), {"share.coordinator.state.topic.num.partitions": "50"}) as server:
        found = await server.services.share_state.find(f"group:{format_uuid(UUID(int=7))}:3")
        # As computed by SharePartitionKey of Kafka 4.3.1.
        assert found.partition == 37


async def test_pruning_deletes_superseded_records_also_after_a_restart() -> None:
    disk = MemoryDisk()
    async with broker_on(disk) as server:
        topic_id = await make_topic(server)
        states = server.services.share_state
        await states.initialize("g", topic_id, 0, EPOCH, 0)
        await acknowledge(states, topic_id, 14)
        before = await states.read("g", topic_id, 0, EPOCH)
        await states.prune()
        # Record 0 is the first snapshot; after five updates each come those at 6 and 12, and two updates.
        assert (log_of(server).log_start_offset, log_of(server).log_end_offset) == (12, 15)
    async with broker_on(disk) as server:
        assert log_of(server).log_start_offset == 12
        assert await server.services.share_state.read("g", topic_id, 0, EPOCH) == before


async def test_an_idle_group_does_not_block_pruning_for_long() -> None:
    settings = {
        "share.coordinator.cold.partition.snapshot.interval.ms": "20",
        "share.coordinator.state.topic.prune.interval.ms": "20",
    }
    async with broker_on(MemoryDisk(), settings) as server:
        topic_id = await make_topic(server)
        states = server.services.share_state
        await states.initialize("rests", topic_id, 0, EPOCH, 3)
        await states.initialize("g", topic_id, 0, EPOCH, 0)
        await acknowledge(states, topic_id, 20)
        await until(lambda: log_of(server).log_start_offset > 1)
        assert (await states.read("rests", topic_id, 0, EPOCH)).start_offset == 3
        assert (await states.read("g", topic_id, 0, EPOCH)).batches == (StateBatch(0, 19, ACKNOWLEDGED, 1),)


async def test_a_compacted_topic_is_not_pruned() -> None:
    async with broker_on(MemoryDisk()) as server:
        topic_id = await make_topic(server)
        states = server.services.share_state
        await states.initialize("g", topic_id, 0, EPOCH, 0)
        controller = server.services.controller
        await controller.change_topic_settings(
            SHARE_STATE_TOPIC, lambda given: {**given, "cleanup.policy": "compact,delete"}
        )
        await acknowledge(states, topic_id, 14)
        await states.prune()
        assert log_of(server).log_start_offset == 0


async def test_deleting_a_topic_deletes_its_states() -> None:
    disk = MemoryDisk()
    async with broker_on(disk) as server:
        topic_id, other_id = await make_topic(server, "a"), await make_topic(server, "b")
        states = server.services.share_state
        await states.initialize("g", topic_id, 0, EPOCH, 0)
        await states.initialize("g", other_id, 0, EPOCH, 5)
        await server.services.controller.delete_topic("a")
        with pytest.raises(ApiError) as gone:
            await states.read("g", topic_id, 0, EPOCH)
        assert gone.value.code is ErrorCode.invalid_request
    async with broker_on(disk) as server:
        with pytest.raises(ApiError) as still_gone:
            await server.services.share_state.read("g", topic_id, 0, EPOCH)
        assert still_gone.value.code is ErrorCode.invalid_request
        assert (await server.services.share_state.read("g", other_id, 0, EPOCH)).start_offset == 5


async def test_a_full_disk_is_an_error_and_committed_states_are_served_afterwards() -> None:
    disk = MemoryDisk()
    async with broker_on(disk) as server:
        topic_id = await make_topic(server)
        states = server.services.share_state
        await states.initialize("g", topic_id, 0, EPOCH, 0)
        await acknowledge(states, topic_id, 2)
        disk.fill()
        with pytest.raises(ApiError) as full:
            await acknowledge(states, topic_id, 5)
        assert full.value.code is ErrorCode.not_coordinator
        disk.make_room()
        assert (await states.read("g", topic_id, 0, EPOCH)).batches == (StateBatch(0, 1, ACKNOWLEDGED, 1),)
