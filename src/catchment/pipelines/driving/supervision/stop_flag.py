"""A flag that a signal handler may set while the same thread waits for it.

To set a `threading.Event` takes a lock, which `wait` holds at its beginning and at its end. A handler that comes just then waits for
its own thread, for ever: a program that is told to stop now and then does not. To put into a `SimpleQueue` never waits.
"""

from __future__ import annotations

from queue import Empty, SimpleQueue


class StopFlag:
    """Set once and for all, by any thread or signal handler; any number may wait."""

    def __init__(self) -> None:
        self._is_set = False
        self._told: SimpleQueue[None] = SimpleQueue()

    def is_set(self) -> bool:
        return self._is_set

    def set(self) -> None:
        self._is_set = True
        self._told.put(None)

    def wait(self, timeout_s: float) -> bool:
        """Until it is set, or for so long; whether it is."""
        try:
            self._told.get(timeout=max(0.0, timeout_s))
            # Others may wait as well.
            self._told.put(None)
        except Empty:
            pass
        return self._is_set
