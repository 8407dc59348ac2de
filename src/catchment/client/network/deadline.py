"""Deadlines of calls, and the pauses between their attempts."""

from __future__ import annotations

import time
from typing import Final

_GROWTH: Final = 2


class Deadline:
    """The time at which a call must have returned."""

    def __init__(self, timeout_s: float) -> None:
        self.timeout_s = timeout_s
        self._at_s = time.monotonic() + timeout_s

    def left_s(self) -> float:
        """The seconds left; 0 after the deadline."""
        return max(0.0, self._at_s - time.monotonic())

    def within(self, timeout_s: float) -> Deadline:
        """A deadline for a part of the call, no later than this one."""
        return Deadline(min(timeout_s, self.left_s()))


class Backoff:
    """Pauses that double up to a bound, and end before a deadline."""

    def __init__(self, first_s: float, longest_s: float, deadline: Deadline) -> None:
        self._next_s = min(first_s, longest_s)
        self._longest_s = longest_s
        self._deadline = deadline

    def pause(self) -> bool:
        """Wait and return True, or return False without waiting if there is no time for another attempt."""
        if self._deadline.left_s() <= self._next_s:
            return False
        time.sleep(self._next_s)
        self._next_s = min(self._next_s * _GROWTH, self._longest_s)
        return True
