"""What can be measured, in which unit, which way is better, and the bar that Catchment sets itself against Kafka."""

from __future__ import annotations

from dataclasses import dataclass

BAR_PEER = "kafka"


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of the result. `bar` bounds the ratio ours/Kafka's: from below where higher is better, else from above."""

    key: str
    title: str
    unit: str
    higher_is_better: bool = True
    bar: float | None = None

    def passes(self, ratio: float) -> bool | None:
        """Whether a ratio clears the bar; None where no bar is set."""
        if self.bar is None:
            return None
        return ratio >= self.bar if self.higher_is_better else ratio <= self.bar


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """Ours over theirs, where both were measured."""
    if ours is None or not theirs:
        return None
    return ours / theirs
