"""A flag that a signal handler may set while the same thread waits for it.

Setting a `threading.Event` takes a lock, which `wait` holds at its beginning and at its end. A handler that runs just then waits for
its own thread, for ever: now and then, a program would ignore a request to stop. Putting into a `SimpleQueue` never blocks.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue


class StopFlag:
    """Set once, by any thread or signal handler; any number of threads may wait."""

    def __init__(self) -> None:
        self._is_set = False
        self._signals: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._signals.put(None)

    def wait(self, timeout_s: float) -> bool:
        """Wait until it is set or the time is over; whether it is set."""
        try:
            self._signals.get(timeout=max(0.0, timeout_s))
            # Other threads may wait as well.
            self._signals.put(None)
        except Empty:
            pass
        return self._is_set
