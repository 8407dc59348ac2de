"""A share partition on a log in memory, with a persister that can fail on request."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Sequence
from typing import Any
from uuid import UUID

from kio.schema.errors import ErrorCode

from catchment.broker.share.in_flight import RecordRules
from catchment.broker.share.leader import ShareLeader
from catchment.coordination.share_state.batches import NO_START, StateBatch
from catchment.coordination.share_state.records import ShareKey, ShareState
from catchment.ports.clock import ManualClock
from catchment.ports.memory_disk import MemoryDisk
from catchment.protocol.errors import ApiError
from catchment.protocol.records import encode_batch, numbered
from catchment.replication.group_commit import GroupCommit
from catchment.replication.partition import Partition
from catchment.storage.config import LogConfig
from catchment.storage.recovery import create_log

RULES = RecordRules(lock_duration_ms=30_000, max_delivery_count=5, max_record_locks=2000)
KEY = ShareKey("group", UUID(int=1), 0)
LEADER_EPOCH = 4
STATE_EPOCH = 2


class Keeper:
    """Persists the state of one share partition. It responds when `gate` is open, with `error` if there is one."""

    def __init__(self, start_offset: int = 0, batches: tuple[StateBatch, ...] = ()) -> None:
        self.state = ShareState(0, STATE_EPOCH, 0, start_offset, 0, 0, batches)
        self.error: ErrorCode | None = None
        self.fault: Exception | None = None
        self.gate = asyncio.Event()
        self.gate.set()
        self.writes: list[tuple[int, tuple[StateBatch, ...], int]] = []
        """The start offset, batches and number of completed deliveries of each write."""

    async def read(self, group_id: str, topic_id: UUID, partition: int, leader_epoch: int) -> ShareState:
        assert (group_id, topic_id, partition, leader_epoch) == (*KEY, LEADER_EPOCH)
        await self._answer()
        return self.state

    async def write(
        self,
        group_id: str,
        topic_id: UUID,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        batches: Sequence[StateBatch],
        delivery_complete_count: int,
    ) -> None:
        assert (group_id, topic_id, partition) == KEY
        assert (state_epoch, leader_epoch) == (STATE_EPOCH, LEADER_EPOCH)
        await self._answer()
        self.writes.append((start_offset, tuple(batches), delivery_complete_count))

    async def _answer(self) -> None:
        await self.gate.wait()
        if self.fault is not None:
            raise self.fault
        if self.error is not None:
            raise ApiError(self.error)


class Led:
    """The leader of a share partition, its log, its clock and its persister."""

    def __init__(self, keeper: Keeper | None = None, rules: RecordRules = RULES) -> None:
        self.keeper = keeper or Keeper()
        self.clock = ManualClock()
        self.disk = MemoryDisk()
        self.disk.make_directory("/logs")
        config = LogConfig(sync_acks=False)
        log = create_log(self.disk, self.clock, "/logs/a-0", "a", 0, None, config)
        self.partition = Partition("a", log, GroupCommit(self.disk), leader_epoch=LEADER_EPOCH)
        self.partition.isr = (1,)
        self.fenced: list[ShareLeader] = []
        self.tasks: list[asyncio.Task[None]] = []
        self.leader = ShareLeader(
            KEY,
            self.partition,
            self.keeper,
            self.clock,
            lambda: rules,
            lambda partition: partition.high_watermark,
            self.fenced.append,
            self._run,
        )

    def _run(self, work: Coroutine[Any, Any, None]) -> None:
        self.tasks.append(asyncio.get_running_loop().create_task(work))

    def append(self, *values: bytes, **fields: Any) -> None:
        batch = encode_batch(numbered((None, value) for value in values), **fields)
        self.partition.append(memoryview(batch), 1, is_from_client=False)

    async def load(self) -> ShareLeader:
        self.leader.start()
        await self.settled()
        return self.leader

    async def settled(self) -> None:
        await asyncio.gather(*self.tasks)


def undecided() -> Keeper:
    return Keeper(NO_START)
