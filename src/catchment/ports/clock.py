"""The clock as a port. Timers belong to the event loop, which a simulation replaces as a whole."""

import time
from typing import Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Wall-clock milliseconds since 1970, which may jump."""
        ...

    def monotonic_s(self) -> float:
        """Seconds that never go back."""
        ...


class SystemClock:
    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def monotonic_s(self) -> float:
        return time.monotonic()


class ManualClock:
    """A clock that stands still until `advance` moves it."""

    def __init__(self, now_ms: int = 1_700_000_000_000) -> None:
        self._now_ms = now_ms
        self._start_ms = now_ms

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic_s(self) -> float:
        return (self._now_ms - self._start_ms) / 1000

    def advance(self, milliseconds: int) -> None:
        self._now_ms += milliseconds
