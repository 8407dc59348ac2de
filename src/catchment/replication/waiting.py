"""Requests that wait for a partition: writers for the high watermark to reach an offset, readers for new data.

Writers wait in the order of their offsets, so one deque serves them. A reader may wait on many partitions at once; it is called
on any change and checks for itself. Nothing here iterates over sets: the order is that of arrival.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import NamedTuple


class _Writer(NamedTuple):
    offset: int
    done: "asyncio.Future[None]"


class WaitingWriters:
    """Futures that are done once an offset is reached, or fail all together."""

    __slots__ = ("_queue",)

    def __init__(self) -> None:
        self._queue: deque[_Writer] = deque()

    def __len__(self) -> int:
        return len(self._queue)

    def add(self, offset: int) -> "asyncio.Future[None]":
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        queue = self._queue
        if queue and queue[-1].offset > offset:
            # A repeated batch waits for its original, which lies before the newest.
            index = next(i for i, writer in enumerate(queue) if writer.offset > offset)
            queue.insert(index, _Writer(offset, done))
        else:
            queue.append(_Writer(offset, done))
        return done

    def reached(self, offset: int) -> None:
        queue = self._queue
        while queue and queue[0].offset <= offset:
            done = queue.popleft().done
            if not done.done():
                done.set_result(None)

    def fail(self, error: Exception) -> None:
        while self._queue:
            done = self._queue.popleft().done
            if not done.done():
                done.set_exception(error)


class WaitingReaders:
    """Callbacks of readers that wait for a partition to grow; each may be removed at any time."""

    __slots__ = ("_callbacks",)

    def __init__(self) -> None:
        self._callbacks: dict[Callable[[], None], None] = {}

    def __len__(self) -> int:
        return len(self._callbacks)

    def add(self, callback: Callable[[], None]) -> None:
        self._callbacks[callback] = None

    def remove(self, callback: Callable[[], None]) -> None:
        self._callbacks.pop(callback, None)

    def notify(self) -> None:
        if self._callbacks:
            for callback in list(self._callbacks):
                callback()
