"""Periodic work beside the queries, whether rows come or not."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final

_END_S: Final = 1.0


class PeriodicTask:
    """A thread that calls a function at once, and then again after each pause, until it is closed."""

    def __init__(self, name: str, work: Callable[[], None], pause_s: float) -> None:
        self._work = work
        self._pause_s = pause_s
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def close(self) -> bool:
        """Whether the thread has ended: it may be waiting for an answer, which the caller should not wait for."""
        self._is_over.set()
        self._thread.join(_END_S)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while not self._is_over.is_set():
            self._work()
            self._is_over.wait(self._pause_s)
