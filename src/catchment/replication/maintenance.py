"""The periodic maintenance of a broker's logs: retention, flushes by time, checkpoints, and the removal of deleted files.

Each task goes through all partitions and yields to the event loop after every few, so that thousands of partitions never delay
a request. A failure at one partition is logged, and the task continues with the next.
"""

import asyncio
import logging
import math
from collections.abc import Awaitable, Callable

from catchment.ports.clock import Clock
from catchment.protocol.errors import ApiError
from catchment.replication.partition import Partition
from catchment.replication.replicas import Replicas
from catchment.settings.broker import BrokerSettings

_logger = logging.getLogger(__name__)

_PARTITIONS_A_TURN = 32
_LONGEST_WAIT_S = 60.0


class LogMaintenance:
    def __init__(
        self,
        replicas: Replicas,
        clock: Clock,
        settings: Callable[[], BrokerSettings],
        release_consumed: Callable[[], Awaitable[None]] | None = None,
    ) -> None:
        """`release_consumed` moves the starts of logs behind what all their consumers have read; retention begins with it."""
        self._replicas = replicas
        self._clock = clock
        self._settings = settings
        self._release_consumed = release_consumed
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        for work, interval_setting, longest_s in (
            (self.apply_retention, "log.retention.check.interval.ms", math.inf),
            # Kafka does not check `flush.ms` unless this setting gives an interval; here `flush.ms` alone is enough.
            (self.flush_overdue, "log.flush.scheduler.interval.ms", 1.0),
            (self.checkpoint, "log.flush.offset.checkpoint.interval.ms", math.inf),
            (self.remove_deleted, "log.retention.check.interval.ms", _LONGEST_WAIT_S),
        ):
            self._tasks.append(asyncio.get_running_loop().create_task(self._repeat(work, interval_setting, longest_s)))

    async def close(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def apply_retention(self) -> None:
        if self._release_consumed is not None:
            await self._release_consumed()
        now_ms = self._clock.now_ms()
        await self._each(lambda partition: partition.apply_retention(now_ms))

    async def flush_overdue(self) -> None:
        now_ms = self._clock.now_ms()
        await self._each(lambda partition: partition.flush_if_overdue(now_ms))

    async def remove_deleted(self) -> None:
        now_ms = self._clock.now_ms()
        await self._each(lambda partition: partition.log.remove_deleted(now_ms))
        for directory in self._replicas.directories:
            directory.remove_deleted(now_ms)

    async def checkpoint(self) -> None:
        await self._replicas.checkpoint()

    async def _each(self, work: Callable[[Partition], object]) -> None:
        for count, partition in enumerate(self._replicas):
            if count % _PARTITIONS_A_TURN == 0:
                await asyncio.sleep(0)
            try:
                work(partition)
            except (OSError, ApiError) as error:
                _logger.error("maintenance of %s-%d failed: %s", partition.topic, partition.number, error)

    async def _repeat(self, work: Callable[[], Awaitable[None]], interval_setting: str, longest_s: float) -> None:
        """Do the work at every interval. The setting is read again at least every minute, since it may be shortened."""
        last_s = self._clock.monotonic_s()
        while True:
            interval_s = min(self._settings().integer(interval_setting) / 1000, longest_s)
            left_s = last_s + interval_s - self._clock.monotonic_s()
            if left_s > 0:
                await asyncio.sleep(min(left_s, _LONGEST_WAIT_S))
                continue
            last_s = self._clock.monotonic_s()
            try:
                await work()
            except OSError as error:
                _logger.error("the task of %s failed and will be retried: %s", interval_setting, error)
            await asyncio.sleep(0)
