"""How fast a client goes, measured as Kafka measures it, and how long it must pause to be within its bound again.

Bytes and time are measured over a window of samples: a burst counts until its sample leaves the window. Changes of the
cluster are measured by a bucket of tokens, which forgives a burst as fast as the bound refills it (KIP-599).
"""

from __future__ import annotations

from collections import deque
from typing import Final, NamedTuple

LONGEST_PAUSE_MS: Final = (1 << 31) - 1


class Window(NamedTuple):
    """The number of samples includes the one that is being filled."""

    samples: int
    sample_ms: int

    @property
    def full_ms(self) -> int:
        """The samples that are complete."""
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
    """Units a second over a window."""

    __slots__ = ("_samples", "_total", "_window")

    def __init__(self, window: Window) -> None:
        self._window = window
        self._samples: deque[_Sample] = deque(maxlen=window.samples + 1)
        self._total = 0.0

    def record(self, value: float, now_ms: int) -> None:
        """A negative value takes back what was recorded at the same moment."""
        samples = self._samples
        if not samples or now_ms - samples[-1].start_ms >= self._window.sample_ms:
            samples.append(_Sample(now_ms))
            self._total = sum([sample.value for sample in samples])
        sample = samples[-1]
        sample.value += value
        sample.last_ms = now_ms
        self._total += value

    def used(self, now_ms: int) -> float:
        """The sum of what the window still holds."""
        samples = self._samples
        oldest_ms = now_ms - self._window.whole_ms
        while samples and samples[0].last_ms <= oldest_ms:
            samples.popleft()
            self._total = sum([sample.value for sample in samples])
        return self._total

    def pause_ms(self, bound: float, now_ms: int) -> int:
        """How long the window must grow, with nothing more in it, for the rate to be at the bound; 0 if it is within."""
        used = self.used(now_ms)
        duration_ms = self._duration_ms(self._samples[0].start_ms if self._samples else now_ms, now_ms)
        rate = used * 1000 / duration_ms
        if rate <= bound:
            return 0
        return min(round((rate - bound) / bound * duration_ms), LONGEST_PAUSE_MS)

    def per_second(self, now_ms: int) -> float:
        """The rate as it stands. Changes nothing, so that another thread may ask."""
        oldest_ms = now_ms - self._window.whole_ms
        counted = [sample for sample in list(self._samples) if sample.last_ms > oldest_ms]
        duration_ms = self._duration_ms(counted[0].start_ms if counted else now_ms, now_ms)
        return sum([sample.value for sample in counted]) * 1000 / duration_ms

    def is_idle(self, now_ms: int) -> bool:
        """Whether nothing is left to count, so that a fresh measure would say the same."""
        self.used(now_ms)
        return not self._samples

    def _duration_ms(self, start_ms: int, now_ms: int) -> int:
        """Since the oldest sample began; time before it counts as if it had been quiet, so that a first burst may pass."""
        elapsed_ms = now_ms - start_ms
        missing = self._window.samples - 1 - elapsed_ms // self._window.sample_ms
        # A window of one sample has no duration at its very beginning.
        return max(elapsed_ms + max(missing, 0) * self._window.sample_ms, 1)


class TokenBucket:
    """Holds what a whole window's worth of the bound allows at once, and refills at the bound."""

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
        """What may still be taken; below zero while the client must pause."""
        burst = self._burst(bound)
        if self._tokens is None:
            return burst
        return min(burst, self._tokens + bound * (now_ms - self._last_ms) / 1000)

    def is_idle(self, now_ms: int) -> bool:
        """Whether it is full, so that a fresh one would say the same."""
        return self.tokens(self._bound, now_ms) >= self._burst(self._bound)

    def pause_ms(self, bound: float, now_ms: int) -> int:
        return min(max(0, round(-self.tokens(bound, now_ms) / bound * 1000)), LONGEST_PAUSE_MS)

    def _burst(self, bound: float) -> float:
        return self._window.whole_ms * bound / 1000
