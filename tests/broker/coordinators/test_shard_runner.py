"""A shard on its partition: responses wait for the disk, and for records that a new leader may not have."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from kio.schema.errors import ErrorCode

from catchment.broker.coordinators.shard_runner import ShardRunner, ShardT
from catchment.coordination.coordinator_shard import Producer
from catchment.coordination.groups.offset_commands import CommitRequest
from catchment.coordination.groups.records import (
    CommittedOffset,
    OffsetKey,
    OffsetToCommit,
    encode_offset,
    encode_offset_key,
)
from catchment.coordination.groups.shard import GroupShard
from catchment.coordination.groups.state import GroupLimits
from catchment.coordination.timers import Moment
from catchment.ports.clock import ManualClock, SystemClock
from catchment.ports.disk import SyncGroup
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.errors import ApiError
from catchment.protocol.records import encode_batch, numbered
from catchment.replication.group_commit import GroupCommit
from catchment.replication.partition import Partition
from catchment.storage.config import LogConfig
from catchment.storage.control_record import TransactionMarker, encode_marker
from catchment.storage.log import Log
from catchment.storage.recovery import create_log

_TIMEOUT_S = 150
_ALL = -1
_CONFIG = LogConfig()


class SlowDisk(MemoryDisk):
    """A disk whose syncs wait until they are released."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = asyncio.Event()

    async def sync_groups(self, groups: Sequence[SyncGroup]) -> list[OSError | None]:
        await self.gate.wait()
        return await super().sync_groups(groups)


def partition_on(disk: MemoryDisk, config: LogConfig = _CONFIG) -> Partition:
    disk.make_directory("/logs")
    log = create_log(disk, ManualClock(), "/logs/o-0", "__consumer_offsets", 0, None, config)
    partition = Partition("__consumer_offsets", log, GroupCommit(disk), leader_epoch=4)
    partition.isr = (1,)
    return partition


async def loaded(partition: Partition, *, commit_timeout_ms: int = 30_000) -> ShardRunner[GroupShard]:
    runner = ShardRunner(partition, partial(GroupShard, GroupLimits()), SystemClock(), commit_timeout_ms)
    runner.start()
    await until_loaded(runner)
    return runner


async def until_loaded(runner: ShardRunner[ShardT]) -> None:
    async with asyncio.timeout(_TIMEOUT_S):
        while True:
            try:
                runner.run(lambda _, __: None)
                return
            except ApiError as error:
                if error.code is not ErrorCode.coordinator_load_in_progress:
                    raise
                await asyncio.sleep(0)


def commit(runner: ShardRunner[GroupShard], offset: int) -> asyncio.Future[list[ErrorCode]]:
    answered: asyncio.Future[list[ErrorCode]] = asyncio.get_running_loop().create_future()
    offsets = [OffsetToCommit("t", 0, offset, -1, "")]
    runner.run(
        lambda shard, now: shard.offsets.commit(CommitRequest("g", -1, "", None, offsets), answered.set_result, now)
    )
    return answered


def committed(runner: ShardRunner[GroupShard]) -> int | None:
    found: list[Any] = []
    runner.run(lambda shard, _: found.append(shard.offsets.fetch("g").get(("t", 0))))
    return None if found[0] is None else int(found[0].offset)


def record(offset: int) -> tuple[bytes, bytes]:
    return encode_offset_key(OffsetKey("g", "t", 0)), encode_offset(CommittedOffset(offset, -1, "", 0))


async def test_a_response_and_a_read_wait_for_the_high_watermark() -> None:
    disk = SlowDisk()
    runner = await loaded(partition_on(disk))
    answered = commit(runner, 7)
    read = asyncio.ensure_future(runner.wait_committed())
    await asyncio.sleep(0.01)
    assert committed(runner) == 7
    assert not answered.done()
    assert not read.done()
    disk.gate.set()
    assert await answered == [ErrorCode.none]
    await read


async def test_a_sync_that_takes_too_long_is_an_error_and_not_a_hang() -> None:
    runner = await loaded(partition_on(SlowDisk()), commit_timeout_ms=20)
    assert await commit(runner, 7) == [ErrorCode.coordinator_not_available]
    with pytest.raises(ApiError) as late:
        await runner.wait_committed()
    assert late.value.code is ErrorCode.coordinator_not_available


async def test_a_former_leader_acknowledges_nothing_that_it_had_appended() -> None:
    disk = SlowDisk()
    partition = partition_on(disk)
    runner = await loaded(partition)
    answered = commit(runner, 7)
    partition.leader_epoch += 1
    disk.gate.set()
    assert await answered == [ErrorCode.not_coordinator]
    with pytest.raises(ApiError) as deposed:
        commit(runner, 8)
    assert deposed.value.code is ErrorCode.not_coordinator


async def test_a_failed_append_unloads_the_shard_and_loads_the_log_again() -> None:
    disk = MemoryDisk()
    runner = await loaded(partition_on(disk))
    assert await commit(runner, 7) == [ErrorCode.none]
    disk.fill()
    assert await commit(runner, 8) == [ErrorCode.not_coordinator]
    disk.make_room()
    await until_loaded(runner)
    assert committed(runner) == 7
    assert await commit(runner, 9) == [ErrorCode.none]


class EagerShard(GroupShard):
    """A shard that writes as soon as it is loaded, and appends the time to `loads`."""

    def __init__(self, loads: asyncio.Queue[float]) -> None:
        super().__init__(GroupLimits())
        self._loads = loads

    def loaded(self, now: Moment) -> None:
        super().loaded(now)
        self._loads.put_nowait(asyncio.get_running_loop().time())
        self.offsets.commit(CommitRequest("g", -1, "", None, [OffsetToCommit("t", 0, 7, -1, "")]), lambda _: None, now)


async def test_a_shard_whose_first_write_fails_is_loaded_again_in_growing_intervals() -> None:
    disk = MemoryDisk()
    partition = partition_on(disk)
    disk.fill()
    loads: asyncio.Queue[float] = asyncio.Queue()
    runner: ShardRunner[GroupShard] = ShardRunner(partition, partial(EagerShard, loads), SystemClock(), 30_000)
    runner.start()
    async with asyncio.timeout(_TIMEOUT_S):
        times_s = [await loads.get() for _ in range(4)]
    assert times_s[3] - times_s[0] > 0.1
    disk.make_room()
    await until_loaded(runner)
    assert committed(runner) == 7


async def test_a_failed_sync_unloads_the_shard_and_fails_all_requests() -> None:
    disk = SlowDisk()
    runner = await loaded(partition_on(disk))
    answers = [commit(runner, 7), commit(runner, 8)]
    disk.fail_syncs = True
    disk.gate.set()
    assert await asyncio.gather(*answers) == [[ErrorCode.not_coordinator]] * 2
    with pytest.raises(ApiError) as offline:
        commit(runner, 9)
    assert offline.value.code is ErrorCode.not_coordinator


async def test_a_write_that_is_too_large_fails_only_its_own_request() -> None:
    runner = await loaded(partition_on(MemoryDisk(), LogConfig(max_message_bytes=1000)))
    answered: asyncio.Future[list[ErrorCode]] = asyncio.get_running_loop().create_future()
    many = [OffsetToCommit("t", number, 1, -1, "") for number in range(100)]
    runner.run(
        lambda shard, now: shard.offsets.commit(CommitRequest("g", -1, "", None, many), answered.set_result, now)
    )
    assert await answered == [ErrorCode.unknown_server_error] * 100
    assert await commit(runner, 7) == [ErrorCode.none]
    assert committed(runner) == 7


async def test_a_fault_in_a_command_unloads_the_shard_and_loads_the_log_again() -> None:
    runner = await loaded(partition_on(MemoryDisk()))
    assert await commit(runner, 7) == [ErrorCode.none]

    def faulty(shard: GroupShard, now: Moment) -> None:
        shard.state.offsets.replay(OffsetKey("g", "t", 0), None)
        raise ZeroDivisionError

    with pytest.raises(ApiError) as raised:
        runner.run(faulty)
    assert raised.value.code is ErrorCode.unknown_server_error
    await until_loaded(runner)
    assert committed(runner) == 7


async def test_closing_answers_all_waiting_requests() -> None:
    runner = await loaded(partition_on(SlowDisk()))
    answered = commit(runner, 7)
    runner.close()
    assert await answered == [ErrorCode.not_coordinator]


async def test_requests_fail_with_load_in_progress_until_the_log_is_replayed() -> None:
    partition = partition_on(MemoryDisk())
    partition.append(memoryview(encode_batch(numbered([record(5)]))), _ALL, is_from_client=False)
    runner = ShardRunner(partition, partial(GroupShard, GroupLimits()), SystemClock(), 1000)
    runner.start()
    with pytest.raises(ApiError) as loading:
        commit(runner, 6)
    assert loading.value.code is ErrorCode.coordinator_load_in_progress
    await until_loaded(runner)
    assert committed(runner) == 5


async def test_temporary_disk_errors_only_delay_loading(monkeypatch: pytest.MonkeyPatch) -> None:
    partition = partition_on(MemoryDisk())
    runner = await loaded(partition)
    assert await commit(runner, 7) == [ErrorCode.none]
    runner.close()
    read, failures = Log.read, [OSError(5, "Input/output error")] * 2

    def failing_read(*arguments: Any) -> Any:
        if failures:
            raise failures.pop()
        return read(*arguments)

    monkeypatch.setattr(Log, "read", failing_read)
    again = await loaded(partition)
    assert committed(again) == 7
    assert not failures


async def test_an_unreadable_log_is_not_served() -> None:
    partition = partition_on(MemoryDisk())
    key, _ = record(5)
    partition.append(memoryview(encode_batch(numbered([(key, b"\x00\x63")]))), _ALL, is_from_client=False)
    runner = ShardRunner(partition, partial(GroupShard, GroupLimits()), SystemClock(), 1000)
    runner.start()
    with pytest.raises(ApiError) as unreadable:
        await until_loaded(runner)
    assert unreadable.value.code is ErrorCode.not_coordinator


@pytest.mark.parametrize(("is_commit", "expected"), [(True, 6), (False, 5)])
async def test_offsets_of_a_transaction_take_effect_with_its_commit(is_commit: bool, expected: int) -> None:
    partition = partition_on(MemoryDisk())
    in_transaction = encode_batch(
        numbered([record(6)]), producer_id=1, producer_epoch=0, base_sequence=0, is_transactional=True
    )
    marker = encode_marker(TransactionMarker(is_commit, 0), producer_id=1, producer_epoch=0, timestamp_ms=0)
    for batch in (encode_batch(numbered([record(5)])), in_transaction, marker):
        partition.append(memoryview(batch), _ALL, is_from_client=False)
    assert committed(await loaded(partition)) == expected


def commit_in_transaction(runner: ShardRunner[GroupShard], offset: int, epoch: int) -> asyncio.Future[list[ErrorCode]]:
    answered: asyncio.Future[list[ErrorCode]] = asyncio.get_running_loop().create_future()
    offsets = [OffsetToCommit("t", 0, offset, -1, "")]
    producer = Producer(1, epoch)
    runner.run(
        lambda shard, now: shard.offsets.commit(
            CommitRequest("g", -1, "", None, offsets, producer), answered.set_result, now
        )
    )
    return answered


@pytest.mark.parametrize(("is_commit", "expected"), [(True, 6), (False, None)])
async def test_a_marker_takes_effect_at_once_and_is_done_when_it_is_committed(
    is_commit: bool, expected: int | None
) -> None:
    disk = SlowDisk()
    partition = partition_on(disk)
    runner = await loaded(partition)
    written = commit_in_transaction(runner, 6, epoch=0)
    assert committed(runner) is None
    ended = runner.end_transaction(Producer(1, 0), TransactionMarker(is_commit, 0))
    assert committed(runner) == expected
    await asyncio.sleep(0.01)
    assert not ended.done()
    disk.gate.set()
    await ended
    assert await written == [ErrorCode.none]
    assert committed(await loaded(partition)) == expected


async def test_a_marker_whose_sync_fails_is_not_done() -> None:
    disk = SlowDisk()
    runner = await loaded(partition_on(disk))
    ended = runner.end_transaction(Producer(1, 0), TransactionMarker(is_commit=True, coordinator_epoch=0))
    disk.fail_syncs = True
    disk.gate.set()
    with pytest.raises(ApiError) as failed:
        await ended
    assert failed.value.code is ErrorCode.not_coordinator


async def test_a_producer_that_the_log_rejects_does_not_reload_the_shard() -> None:
    runner = await loaded(partition_on(MemoryDisk()))
    assert await commit_in_transaction(runner, 6, epoch=3) == [ErrorCode.none]
    assert await commit_in_transaction(runner, 7, epoch=2) == [ErrorCode.invalid_producer_epoch]
    with pytest.raises(ApiError) as stale:
        runner.end_transaction(Producer(1, 2), TransactionMarker(is_commit=True, coordinator_epoch=0))
    assert stale.value.code is ErrorCode.invalid_producer_epoch
    # The shard is the same: nothing was loaded again.
    assert committed(runner) is None
    await runner.end_transaction(Producer(1, 3), TransactionMarker(is_commit=True, coordinator_epoch=0))
    assert committed(runner) == 6


async def test_a_hundred_thousand_offsets_of_ten_thousand_groups_load_in_seconds() -> None:
    partition = partition_on(MemoryDisk(), LogConfig(sync_acks=False))
    for group in range(10_000):
        records = [
            (
                encode_offset_key(OffsetKey(f"group-{group}", "topic", number)),
                encode_offset(CommittedOffset(number, 0, "", 1)),
            )
            for number in range(10)
        ]
        partition.append(memoryview(encode_batch(numbered(records))), _ALL, is_from_client=False)
    loop = asyncio.get_running_loop()
    runner = ShardRunner(partition, partial(GroupShard, GroupLimits()), SystemClock(), 1000)
    began_s = loop.time()
    runner.start()
    await until_loaded(runner)
    assert loop.time() - began_s < _TIMEOUT_S
    sizes: list[int] = []
    runner.run(lambda shard, _: sizes.append(len(shard.state.offsets)))
    assert sizes == [100_000]
