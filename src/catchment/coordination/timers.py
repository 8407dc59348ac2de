"""Timers of a coordinator shard: actions by key, each with a deadline.

A heartbeat moves the deadline of its member thousands of times before it ever expires. So moving a deadline to a later time
costs one look-up: the queue keeps the earlier time, and the entry is queued again when that time comes.
"""

import heapq
from collections.abc import Callable
from typing import Final, NamedTuple

MAX_EXPIRED_PER_RUN: Final = 32
"""The most timers in one run, as when all members of a large group expire together: other requests run in between."""


class Moment(NamedTuple):
    """The time of a command by two clocks: records get the wall-clock time, deadlines use the monotonic clock."""

    wall_ms: int
    monotonic_ms: int
    """Milliseconds of a clock that never jumps or goes back."""


Key = tuple[str, str, str]
"""The kind of timer, the group, and the member (or an empty string)."""
Action = Callable[[Moment], None]


class _Timer(NamedTuple):
    deadline_ms: int
    action: Action


class Timers:
    __slots__ = ("_queue", "_queued_ms", "_timers")

    def __init__(self) -> None:
        self._timers: dict[Key, _Timer] = {}
        self._queue: list[tuple[int, Key]] = []
        self._queued_ms: dict[Key, int] = {}
        """For each key in the queue, the time of its valid entry."""

    def __len__(self) -> int:
        return len(self._timers)

    def __contains__(self, key: Key) -> bool:
        return key in self._timers

    @property
    def next_deadline_ms(self) -> int | None:
        """When to call `run_due` next. Possibly nothing is due then."""
        return self._queue[0][0] if self._queue else None

    def set(self, key: Key, deadline_ms: int, action: Action) -> None:
        """Run the action at the deadline. It replaces the timer of this key."""
        self._timers[key] = _Timer(deadline_ms, action)
        queued_ms = self._queued_ms.get(key)
        if queued_ms is None or deadline_ms < queued_ms:
            self._enqueue(key, deadline_ms)

    def cancel(self, key: Key) -> None:
        self._timers.pop(key, None)

    def run_due(self, now: Moment) -> None:
        """Run timers that are due, in the order of their deadlines, up to the limit of one run."""
        queue = self._queue
        run_count = 0
        while queue and queue[0][0] <= now.monotonic_ms and run_count < MAX_EXPIRED_PER_RUN:
            queued_ms, key = heapq.heappop(queue)
            if self._queued_ms.get(key) != queued_ms:
                continue
            del self._queued_ms[key]
            timer = self._timers.get(key)
            if timer is None:
                continue
            if timer.deadline_ms > now.monotonic_ms:
                self._enqueue(key, timer.deadline_ms)
                continue
            del self._timers[key]
            timer.action(now)
            run_count += 1

    def _enqueue(self, key: Key, deadline_ms: int) -> None:
        self._queued_ms[key] = deadline_ms
        heapq.heappush(self._queue, (deadline_ms, key))
