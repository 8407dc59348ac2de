"""Measures: their units, which direction is better, and the bars that Catchment sets itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

BAR_PEER = "kafka"


@dataclass(frozen=True, slots=True)
class Section:
    """Rows that belong together, under one title."""

    key: str
    title: str


@dataclass(frozen=True, slots=True)
class Measure:
    """One row of the result.

    `bar` bounds the ratio of our number to that of `bar_peer`, `limit` our own number: from below if higher is better, else
    from above.
    """

    key: str
    title: str
    unit: str
    higher_is_better: bool = True
    bar: float | None = None
    bar_peer: str = BAR_PEER
    limit: float | None = None

    def passes(self, value: float, bound: float | None) -> bool | None:
        """Whether a value is within a bound; None without a bound."""
        if bound is None:
            return None
        return value >= bound if self.higher_is_better else value <= bound


def ratio(ours: float | None, theirs: float | None) -> float | None:
    """Our number divided by the peer's, if both were measured."""
    if ours is None or not theirs:
        return None
    return ours / theirs


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest sample that at least this share of all samples does not exceed (nearest rank)."""
    if not ordered:
        raise ValueError("no samples")
    rank = -(-len(ordered) * share // 1)
    return ordered[max(0, int(rank) - 1)]
