"""A fetch that waits for records: it is woken by new ones, and by old ones that become free again."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from types import TracebackType

from catchment.broker.context import LONGEST_WAIT_MS
from catchment.broker.network.connection import Connection
from catchment.broker.share.leader import ShareLeader


class Bell:
    """Rings whenever one of the share partitions may have something, as long as it is entered.

    The time is up early if the client closes its side.
    """

    def __init__(self, leaders: Sequence[ShareLeader], max_wait_ms: int, connection: Connection | None) -> None:
        self._leaders = leaders
        self._connection = connection
        self._loop = asyncio.get_running_loop()
        has_asked_last = connection is not None and connection.asks_no_more
        self._deadline_s = self._loop.time() + (0 if has_asked_last else min(max_wait_ms, LONGEST_WAIT_MS) / 1000)
        self._has_rung = False
        self._heard: asyncio.Future[None] | None = None

    def __enter__(self) -> Bell:
        for leader in self._leaders:
            leader.waiting.add(self._ring)
            leader.partition.readers.add(self._ring)
        if self._connection is not None:
            self._connection.when_gone[self] = self._expire
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for leader in self._leaders:
            leader.waiting.remove(self._ring)
            leader.partition.readers.remove(self._ring)
        if self._connection is not None:
            self._connection.when_gone.pop(self, None)

    async def wait(self) -> bool:
        """Wait for the next ring; whether it came before the time was up."""
        if not self._has_rung and self._loop.time() < self._deadline_s:
            heard = self._heard = self._loop.create_future()
            timer = self._loop.call_at(self._deadline_s, self._end)
            try:
                await heard
            finally:
                timer.cancel()
        has_rung, self._has_rung = self._has_rung, False
        return has_rung and self._loop.time() < self._deadline_s

    def _ring(self) -> None:
        self._has_rung = True
        self._end()

    def _expire(self) -> None:
        self._deadline_s = 0.0
        self._end()

    def _end(self) -> None:
        if self._heard is not None and not self._heard.done():
            self._heard.set_result(None)
