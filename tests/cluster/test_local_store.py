"""The local store as a coordination store: versions, atomicity, durability of what was acknowledged."""

import asyncio
from collections.abc import Coroutine
from random import Random

import pytest
from kio.schema.errors import ErrorCode

from catchment.cluster.local_store import LocalStore
from catchment.ports.coordination import (
    BadVersion,
    Check,
    CoordinationError,
    Create,
    Delete,
    Node,
    NodeExists,
    NoNode,
    NotEmpty,
    SessionLost,
    Set,
)
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.errors import ApiError

DIRECTORY = "/data/catchment-metadata"


def disk_with_parent() -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory("/data")
    disk.sync_directory("/")
    return disk


def open_store(disk: MemoryDisk, journal_bytes_before_snapshot: int = 1 << 20) -> LocalStore:
    return LocalStore(disk, DIRECTORY, journal_bytes_before_snapshot=journal_bytes_before_snapshot)


async def test_a_node_is_created_read_changed_and_deleted_by_version() -> None:
    store = open_store(MemoryDisk())
    created = await store.create("/a", b"one")
    assert (created.data, created.version) == (b"one", 0)
    assert (await store.set("/a", b"two", version=0)).version == 1
    assert await store.get("/a") == (b"two", 1, created.created_by)
    with pytest.raises(BadVersion):
        await store.set("/a", b"three", version=0)
    with pytest.raises(BadVersion):
        await store.delete("/a", version=0)
    await store.delete("/a", version=1)
    with pytest.raises(NoNode):
        await store.get("/a")


async def test_a_node_needs_its_parent_and_cannot_be_deleted_before_its_children() -> None:
    store = open_store(MemoryDisk())
    with pytest.raises(NoNode):
        await store.create("/a/b", b"")
    await store.create("/a", b"")
    await store.create("/a/b", b"")
    with pytest.raises(NodeExists):
        await store.create("/a/b", b"")
    with pytest.raises(NotEmpty):
        await store.delete("/a")
    await store.delete("/a/b")
    await store.delete("/a")
    assert await store.children("/") == []


@pytest.mark.parametrize("path", ["a", "/a/", "//a", ""])
async def test_an_invalid_path_is_rejected(path: str) -> None:
    with pytest.raises(ValueError, match="not the path"):
        await open_store(MemoryDisk()).create(path, b"")


async def test_a_whole_branch_is_created_and_deleted_in_one_multi() -> None:
    store = open_store(MemoryDisk())
    branch = ["/a", "/a/b", "/a/b/c"]
    await store.multi([Create(path, b"") for path in branch])
    await store.multi([Delete(path) for path in reversed(branch)])
    assert await store.children("/") == []
    await store.multi([Create("/a", b""), Create("/a/x", b""), Delete("/a/x"), Delete("/a"), Create("/a", b"")])
    assert await store.children("/a") == []


async def test_children_are_listed_in_order_and_only_of_nodes_that_exist() -> None:
    store = open_store(MemoryDisk())
    await store.multi([Create("/t", b""), Create("/t/b", b""), Create("/t/a", b""), Create("/t/a/x", b"")])
    assert await store.children("/t") == ["a", "b"]
    assert await store.children("/t/b") == []
    with pytest.raises(NoNode):
        await store.children("/nowhere")


async def test_a_multi_that_fails_at_its_last_operation_changes_nothing() -> None:
    store = open_store(MemoryDisk())
    await store.create("/a", b"old")
    with pytest.raises(BadVersion):
        await store.multi([Set("/a", b"new"), Create("/b", b""), Delete("/a"), Create("/a", b""), Check("/b", 1)])
    assert (await store.get("/a")).data == b"old"
    assert await store.children("/") == ["a"]


async def test_each_operation_of_a_multi_sees_the_ones_before_it() -> None:
    store = open_store(MemoryDisk())
    answers = await store.multi(
        [Create("/a", b""), Set("/a", b"x", 0), Check("/a", 1), Create("/a/b", b""), Delete("/a/b")]
    )
    assert [None if node is None else node.version for node in answers] == [0, 1, None, 0, None]


async def test_of_concurrent_compare_and_sets_exactly_one_wins() -> None:
    store = open_store(MemoryDisk())
    await store.create("/a", b"")
    results = await asyncio.gather(*(store.set("/a", b"%d" % n, version=0) for n in range(20)), return_exceptions=True)
    assert sum(not isinstance(result, BaseException) for result in results) == 1
    assert sum(isinstance(result, BadVersion) for result in results) == 19
    assert (await store.get("/a")).version == 1


async def test_acknowledged_changes_survive_a_power_loss() -> None:
    disk = disk_with_parent()
    store = open_store(disk)
    for number in range(10):
        await store.create(f"/n{number}", b"%d" % number)
        await store.set("/n0", b"set by %d" % number)
    for seed in range(20):
        again = open_store(disk.crash(Random(seed)))
        assert await again.children("/") == sorted(f"n{number}" for number in range(10))
        assert await again.get("/n0") == await store.get("/n0")


async def test_ephemeral_nodes_end_with_the_process_but_their_numbers_are_not_reused() -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    await store.create("/ids", b"")
    first = await store.create("/ids/1", b"", ephemeral=True)
    await store.set("/ids/1", b"changed")
    with pytest.raises(CoordinationError):
        await store.create("/ids/1/child", b"")
    again = open_store(disk)
    assert await again.children("/ids") == []
    assert (await again.create("/ids/1", b"", ephemeral=True)).created_by > first.created_by


async def test_a_grown_journal_becomes_a_snapshot_with_the_same_nodes() -> None:
    disk = MemoryDisk()
    store = open_store(disk, journal_bytes_before_snapshot=2000)
    await store.create("/ephemeral", b"", ephemeral=True)
    for number in range(200):
        await store.create(f"/n{number}", b"x" * 20)
        if number % 3 == 0:
            await store.delete(f"/n{number}")
        else:
            await store.set(f"/n{number}", b"y")
    await store.close()
    names = [entry.name for entry in disk.list_directory(DIRECTORY)]
    assert names[-1] == "snapshot"
    assert len(names) == 2
    again = open_store(disk)
    assert await again.children("/") == sorted(f"n{number}" for number in range(200) if number % 3)
    assert (await again.get("/n1"))[:2] == (b"y", 1)
    assert (await again.get("/n1")).created_by == (await store.get("/n1")).created_by


async def test_a_change_on_a_full_disk_fails_unseen_and_changes_succeed_once_there_is_space() -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    disk.fill(10)
    with pytest.raises(ApiError) as rejected:
        await store.create("/a", b"")
    assert rejected.value.code is ErrorCode.kafka_storage_error
    assert await store.children("/") == []
    disk.make_room()
    await store.create("/b", b"")
    assert await open_store(disk).children("/") == ["b"]


async def test_a_failed_sync_is_final_and_the_change_is_not_seen() -> None:
    disk = MemoryDisk()
    store = open_store(disk)
    await store.create("/before", b"")
    disk.fail_syncs = True
    with pytest.raises(ApiError):
        await store.create("/a", b"")
    disk.fail_syncs = False
    with pytest.raises(ApiError) as rejected:
        await store.create("/b", b"")
    assert rejected.value.code is ErrorCode.kafka_storage_error
    assert await store.children("/") == ["before"]
    assert await open_store(disk).children("/") == ["before"]


async def test_a_disk_without_space_for_a_snapshot_keeps_the_journal_and_every_change() -> None:
    disk = MemoryDisk()
    store = open_store(disk, journal_bytes_before_snapshot=100)
    disk.fill(400)
    results = [await outcome(store.create(f"/n{number}", b"x" * 30)) for number in range(10)]
    kept = await store.children("/")
    assert kept == [f"n{number}" for number in range(10) if results[number] is None]
    assert 0 < len(kept) < 10
    assert await open_store(disk).children("/") == kept


async def outcome(change: Coroutine[object, object, Node]) -> ErrorCode | None:
    try:
        await change
    except ApiError as error:
        return error.code
    return None


async def test_a_watch_reports_data_and_children_until_it_ends() -> None:
    store = open_store(MemoryDisk())
    told: list[str] = []
    end = store.watch("/a", told.append)
    await store.create("/a", b"")
    await store.create("/a/b", b"")
    await store.create("/c", b"")
    assert told == ["/a", "/a"]
    end()
    await store.set("/a", b"x")
    assert told == ["/a", "/a"]


async def test_a_closed_store_rejects_changes() -> None:
    store = open_store(MemoryDisk())
    change = asyncio.ensure_future(store.create("/a", b""))
    await asyncio.sleep(0)
    await store.close()
    assert (await change).version == 0
    with pytest.raises(SessionLost):
        await store.create("/b", b"")


async def test_a_cancelled_caller_does_not_affect_the_others_of_its_group() -> None:
    store = open_store(MemoryDisk())
    hanging_up = asyncio.ensure_future(store.create("/a", b""))
    staying = asyncio.ensure_future(store.create("/b", b""))
    await asyncio.sleep(0)
    hanging_up.cancel()
    assert (await staying).version == 0
    assert "b" in await store.children("/")
