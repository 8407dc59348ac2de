"""Rates, measured as in Kafka, and the throttle times that bring a client back within its limit.

Bytes and request time are measured over a window of samples: a burst counts until its sample leaves the window. Controller
mutations use a token bucket, which recovers from a burst at the rate of the limit (KIP-599).
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

MAX_THROTTLE_MS: Final = (1 << 31) - 1


class Window(NamedTuple):
    """The number of samples includes the current one."""

    samples: int
    sample_ms: int

    @property
    def full_ms(self) -> int:
        """The length of the complete samples."""
        return (self.samples - 1) * self.sample_ms

    @property
    def whole_ms(self) -> int:
        return self.samples * self.sample_ms


class _Sample:
    __slots__ = ("last_ms", "start_ms", "value")

    def __init__(self, now_ms: int) -> None:
        self.start_ms = now_ms
        self.last_ms = now_ms
        self.value = 0.0


class SampledRate:
    """Units per second over a window."""

    __slots__ = ("_samples", "_total", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._samples: deque[_Sample] = deque(maxlen=window.samples + 1)
        self._total = 0.0

    def record(self, value: float, now_ms: int) -> None:
        """A negative value undoes a record of the same moment."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._window.sample_ms:
            samples.append(_Sample(now_ms))
            self._total = sum([sample.value for sample in samples])
        sample = samples[-1]
        sample.value += value
        sample.last_ms = now_ms
        self._total += value

    def used(self, now_ms: int) -> float:
        """The sum of the samples in the window."""
        samples = self._samples
        oldest_ms = now_ms - self._window.whole_ms
        while samples and samples[0].last_ms <= oldest_ms:
            samples.popleft()
            self._total = sum([sample.value for sample in samples])
        return self._total

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        """How long the window must grow without new values until the rate is at the limit; 0 if it is within."""
        used = self.used(now_ms)
        duration_ms = self._duration_ms(self._samples[0].start_ms if self._samples else now_ms, now_ms)
        rate = used * 1000 / duration_ms
        if rate <= bound:
            return 0
        return min(round((rate - bound) / bound * duration_ms), MAX_THROTTLE_MS)

    def per_second(self, now_ms: int) -> float:
        """The current rate. Changes nothing, so another thread may call it."""
        oldest_ms = now_ms - self._window.whole_ms
        counted = [sample for sample in list(self._samples) if sample.last_ms > oldest_ms]
        duration_ms = self._duration_ms(counted[0].start_ms if counted else now_ms, now_ms)
        return sum([sample.value for sample in counted]) * 1000 / duration_ms

    def is_idle(self, now_ms: int) -> bool:
        """Whether the window is empty, so that a new measurement would give the same result."""
        self.used(now_ms)
        return not self._samples

    def _duration_ms(self, start_ms: int, now_ms: int) -> int:
        """The time since the oldest sample started. A short history is extended by idle time, so that a first burst is allowed."""
        elapsed_ms = now_ms - start_ms
        missing = self._window.samples - 1 - elapsed_ms // self._window.sample_ms
        # A window of one sample has no duration at its start.
        return max(elapsed_ms + max(missing, 0) * self._window.sample_ms, 1)


class TokenBucket:
    """Holds as many tokens as the limit allows in a whole window, and refills at the rate of the limit."""

    __slots__ = ("_bound", "_last_ms", "_tokens", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._tokens: float | None = None
        self._last_ms = 0
        self._bound = 0.0

    def record(self, value: float, bound: float, now_ms: int) -> None:
        self._tokens = self.tokens(bound, now_ms) - value
        self._last_ms = now_ms
        self._bound = bound

    def tokens(self, bound: float, now_ms: int) -> float:
        """The tokens left; negative while the client is throttled."""
        burst = self._burst(bound)
        if self._tokens is None:
            return burst
        return min(burst, self._tokens + bound * (now_ms - self._last_ms) / 1000)

    def is_idle(self, now_ms: int) -> bool:
        """Whether it is full, so that a new one would give the same result."""
        return self.tokens(self._bound, now_ms) >= self._burst(self._bound)

    def throttle_ms(self, bound: float, now_ms: int) -> int:
        return min(max(0, round(-self.tokens(bound, now_ms) / bound * 1000)), MAX_THROTTLE_MS)

    def _burst(self, bound: float) -> float:
        return self._window.whole_ms * bound / 1000
