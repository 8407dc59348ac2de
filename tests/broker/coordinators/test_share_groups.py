"""Share groups when the share coordinator is slow or fails: members wait, and get no partition without state."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from uuid import UUID

import pytest
from kio.schema.errors import ErrorCode

from catchment.broker.context import Services
from catchment.broker.coordinators import share_groups
from catchment.broker.coordinators.share_state import ShareStateCoordinator
from catchment.broker.server import BrokerServer
from catchment.cluster.new_topic import NewTopic
from catchment.coordination.groups.share.heartbeat import HeartbeatRequest, HeartbeatResponse
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.errors import ApiError
from catchment.settings.broker import BrokerSettings

LEAVING = -1
_DEADLINE_S = 150


@pytest.fixture
async def services(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Services]:
    # On a busy machine the initialization of share state may take longer than a heartbeat waits for it.
    monkeypatch.setattr(share_groups, "_MAX_WAIT_S", _DEADLINE_S)
    server = BrokerServer(
        BrokerSettings({"listeners": "PLAINTEXT://127.0.0.1:0", "offsets.topic.num.partitions": "1"}),
        disk=MemoryDisk(),
    )
    await server.start()
    await server.services.controller.create_topic(NewTopic("t"))
    await server.services.groups.find("g")
    yield server.services
    await server.close()


async def beat(services: Services, epoch: int, topics: tuple[str, ...] | None = None) -> HeartbeatResponse:
    """One heartbeat, repeated while the coordinator loads its log."""
    request = HeartbeatRequest("g", "member", epoch, None, topics, "client", "/host")
    deadline_s = asyncio.get_running_loop().time() + _DEADLINE_S
    while True:
        try:
            return await services.share_groups.heartbeat(request)
        except ApiError as error:
            if error.code is not ErrorCode.coordinator_load_in_progress or (
                asyncio.get_running_loop().time() > deadline_s
            ):
                raise
            await asyncio.sleep(0)


async def refuse(*_: object) -> None:
    raise ApiError(ErrorCode.coordinator_not_available)


async def test_a_failed_initialization_is_tried_again_by_the_next_heartbeat(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(ShareStateCoordinator, "initialize", refuse)
        joined = await beat(services, 0, ("t",))
    assert (joined.error, joined.assignment) == (ErrorCode.none, {})
    topic_id = services.controller.image.topics["t"].id
    assert (await beat(services, joined.member_epoch)).assignment == {topic_id: frozenset({0})}


async def test_a_heartbeat_waits_for_a_slow_initialization_up_to_a_limit(
    services: Services, monkeypatch: pytest.MonkeyPatch
) -> None:
    may_go_on = asyncio.Event()
    initialize = ShareStateCoordinator.initialize

    async def slow(
        self: ShareStateCoordinator, group_id: str, topic_id: UUID, partition: int, state_epoch: int, start_offset: int
    ) -> None:
        await may_go_on.wait()
        await initialize(self, group_id, topic_id, partition, state_epoch, start_offset)

    monkeypatch.setattr(ShareStateCoordinator, "initialize", slow)
    monkeypatch.setattr(share_groups, "_MAX_WAIT_S", 0.01)
    joined = await beat(services, 0, ("t",))
    assert joined.assignment == {}
    may_go_on.set()
    topic_id = services.controller.image.topics["t"].id
    given: list[HeartbeatResponse] = []
    deadline_s = asyncio.get_running_loop().time() + _DEADLINE_S
    while not given or given[-1].assignment is None:
        assert asyncio.get_running_loop().time() < deadline_s
        # A heartbeat that need not wait lets no other task run.
        await asyncio.sleep(0)
        given.append(await beat(services, joined.member_epoch))
    assert given[-1].assignment == {topic_id: frozenset({0})}


async def test_a_group_whose_state_cannot_be_deleted_stays(services: Services, monkeypatch: pytest.MonkeyPatch) -> None:
    await beat(services, 0, ("t",))
    await beat(services, LEAVING)
    with monkeypatch.context() as patched:
        patched.setattr(ShareStateCoordinator, "delete", refuse)
        assert await services.share_groups.delete("g") is ErrorCode.coordinator_not_available
    assert (await services.share_groups.describe("g")).state_name == "Empty"
    topic_id = services.controller.image.topics["t"].id
    assert (await beat(services, 0, ("t",))).assignment == {topic_id: frozenset({0})}
    await beat(services, LEAVING)
    assert await services.share_groups.delete("g") is ErrorCode.none
    with pytest.raises(ApiError):
        await services.share_groups.describe("g")
