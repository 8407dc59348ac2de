"""An unexpected error at every call of a shard, one by one: every request is answered, and the state equals the log afterwards.

The shard is a real one. A counter counts all calls of the runner, callbacks of writes included, and the call with the chosen
number raises: before it does its work, or after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from functools import partial
from itertools import count
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.broker.coordinators.test_shard_runner import partition_on, until_loaded

from catchment.broker.coordinators.loading import replay_log
from catchment.broker.coordinators.shard_runner import ShardRunner
from catchment.coordination.coordinator_shard import NO_PRODUCER, Producer, Write
from catchment.coordination.groups.classic.commands import JoinRequest, JoinResponse
from catchment.coordination.groups.offset_commands import CommitRequest
from catchment.coordination.groups.records import OffsetToCommit
from catchment.coordination.groups.shard import GroupShard
from catchment.coordination.groups.state import GroupLimits
from catchment.coordination.timers import Moment
from catchment.ports.clock import SystemClock
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.errors import ApiError
from catchment.replication.partition import Partition
from catchment.storage.config import LogConfig
from catchment.storage.control_record import TransactionMarker

_TIMEOUT_S = 150
CALLS = ("next_deadline_ms", "take_writes", "replay", "end_transaction", "loaded", "run_timers", "committed")
"""The calls of a run without faults. `close` and `failed` are only called after faults."""
_LIMITS = GroupLimits(initial_rebalance_delay_ms=5)
_JOIN = JoinRequest("joined", "", None, "c", "h", 10_000, 10_000, "consumer", (("range", b""),), "id", False)


class Injected(Exception):
    """The fault."""


class Faults:
    """The call that raises, by its name and number, and how many calls of any name raise (`times`)."""

    def __init__(self, name: str, number: int, *, is_late: bool, times: int = 1) -> None:
        self.raised: list[str] = []
        self._name = name
        self._left = number
        self._is_late = is_late
        self._times = times

    def stop(self) -> None:
        self._times = 0

    def call(self, name: str, work: Callable[[], Any]) -> Any:
        self._left -= name == self._name
        is_due = self._left <= 0 and len(self.raised) < self._times
        if is_due:
            self.raised.append(name)
        if is_due and not self._is_late:
            raise Injected(name)
        result = work()
        if is_due:
            raise Injected(name)
        return result


class FaultyShard(GroupShard):
    def __init__(self, faults: Faults) -> None:
        super().__init__(_LIMITS)
        self._faults = faults

    @property
    def next_deadline_ms(self) -> int | None:
        deadline_ms: int | None = self._faults.call("next_deadline_ms", lambda: self._state.timers.next_deadline_ms)
        return deadline_ms

    def take_writes(self) -> list[Write]:
        writes: list[Write] = self._faults.call("take_writes", super().take_writes)
        return [write._replace(committed=self._committed(write), failed=self._failed(write)) for write in writes]

    def replay(self, key: bytes, value: bytes | None, producer_id: int = NO_PRODUCER) -> None:
        self._faults.call("replay", partial(super().replay, key, value, producer_id))

    def end_transaction(self, producer_id: int, is_commit: bool) -> None:
        self._faults.call("end_transaction", partial(super().end_transaction, producer_id, is_commit))

    def loaded(self, now: Moment) -> None:
        self._faults.call("loaded", partial(super().loaded, now))

    def run_timers(self, now: Moment) -> None:
        self._faults.call("run_timers", partial(super().run_timers, now))

    def close(self, error: ErrorCode) -> None:
        self._faults.call("close", partial(super().close, error))

    def _committed(self, write: Write) -> Callable[[Moment], None]:
        return lambda now: self._faults.call("committed", lambda: write.committed(now))

    def _failed(self, write: Write) -> Callable[[ErrorCode, Moment], None]:
        return lambda error, now: self._faults.call("failed", lambda: write.failed(error, now))


def _commit(runner: ShardRunner[FaultyShard], offset: int, producer: Producer | None = None) -> Awaitable[Any]:
    offsets = [OffsetToCommit("t", 0, offset, -1, ""), OffsetToCommit("t", 1, offset, -1, "")]

    def command(shard: FaultyShard, now: Moment, reply: Callable[[list[ErrorCode]], None]) -> None:
        shard.offsets.commit(CommitRequest("g", -1, "", None, offsets, producer), reply, now)

    return runner.ask(command)


def _join(runner: ShardRunner[FaultyShard]) -> Awaitable[Any]:
    def command(shard: FaultyShard, now: Moment, reply: Callable[[JoinResponse], None]) -> None:
        shard.classic.join(_JOIN, reply, now)

    return runner.ask(command)


def _requests() -> Iterator[Callable[[ShardRunner[FaultyShard]], Awaitable[Any]]]:
    """Requests in sequence, not awaited in between: at the fault some wait for the disk, and one for a timer."""
    yield lambda runner: _commit(runner, 1)
    yield _join
    yield lambda runner: _commit(runner, 2, Producer(7, 0))
    yield lambda runner: _commit(runner, 3)
    yield lambda runner: runner.end_transaction(Producer(7, 0), TransactionMarker(is_commit=True, coordinator_epoch=0))
    yield lambda runner: _commit(runner, 4)


async def _asked(runner: ShardRunner[FaultyShard]) -> None:
    """Send all requests; each is answered, possibly with an error."""
    answers: list[Awaitable[Any]] = []
    for request in _requests():
        try:
            answers.append(request(runner))
        except ApiError:
            await asyncio.sleep(0)
    async with asyncio.timeout(_TIMEOUT_S):
        for outcome in await asyncio.gather(*answers, return_exceptions=True):
            assert outcome is None or isinstance(outcome, (ApiError, list, JoinResponse)), outcome


def _content(shard: GroupShard) -> tuple[object, ...]:
    state = shard.state
    pending = state.pending_offsets.of_group("g")
    return dict(state.offsets.of_group("g")), set(pending), dict(state.logged)


async def _served(runner: ShardRunner[FaultyShard]) -> tuple[object, ...]:
    await until_loaded(runner)
    found: list[tuple[object, ...]] = []
    runner.run(lambda shard, _: found.append(_content(shard)))
    return found[0]


async def _replayed(partition: Partition) -> tuple[object, ...]:
    shard = GroupShard(_LIMITS)
    await replay_log(partition.log, partition.log.log_end_offset, shard)
    return _content(shard)


async def _run(config: LogConfig, faults: Faults) -> None:
    lost: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    partition = partition_on(MemoryDisk(), config)
    runner = ShardRunner(partition, partial(FaultyShard, faults), SystemClock(), 30_000)
    runner.start()
    await runner.wait_loaded()
    await _asked(runner)
    faults.stop()
    assert await _served(runner) == await _replayed(partition)
    async with asyncio.timeout(_TIMEOUT_S):
        assert await _commit(runner, 9) == [ErrorCode.none] * 2
    assert await _served(runner) == await _replayed(partition)
    runner.close()
    assert lost == []


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("config", [LogConfig(), LogConfig(sync_acks=False)], ids=["synced", "unsynced"])
@pytest.mark.parametrize("name", CALLS)
async def test_a_fault_at_any_call_is_answered_and_the_shard_recovers(
    name: str, config: LogConfig, is_late: bool
) -> None:
    for number in count(1):
        faults = Faults(name, number, is_late=is_late)
        await _run(config, faults)
        if not faults.raised:
            break
    assert number > 1


@pytest.mark.parametrize("times", [2, 3])
async def test_faults_during_fault_handling_are_answered_and_the_shard_recovers(times: int) -> None:
    reached: set[str] = set()
    for name in CALLS:
        for number in count(1):
            faults = Faults(name, number, is_late=False, times=times)
            await _run(LogConfig(), faults)
            if not faults.raised:
                break
            reached |= set(faults.raised[1:])
    assert reached >= {"close", "failed"}


async def test_requests_do_not_wait_for_a_shard_that_can_never_be_loaded() -> None:
    faults = Faults("loaded", 1, is_late=True, times=1_000_000)
    runner = ShardRunner(partition_on(MemoryDisk()), partial(FaultyShard, faults), SystemClock(), 30_000)
    runner.start()
    async with asyncio.timeout(_TIMEOUT_S):
        await runner.wait_loaded()
    with pytest.raises(ApiError) as refused:
        _commit(runner, 1)
    assert refused.value.code is ErrorCode.not_coordinator
    assert set(faults.raised) == {"loaded", "close"}
