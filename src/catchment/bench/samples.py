"""The little statistics that a benchmark needs: percentiles of samples, medians of rounds."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest sample that at least this share of all samples does not exceed (nearest rank)."""
    if not ordered:
        raise ValueError("no samples")
    rank = -(-len(ordered) * share // 1)
    return ordered[max(0, int(rank) - 1)]


def medians(rounds: Sequence[Mapping[str, float]]) -> dict[str, float]:
    """The median of every value over the rounds that have it."""
    names = dict.fromkeys(name for values in rounds for name in values)
    return {name: statistics.median(values[name] for values in rounds if name in values) for name in names}


def spread(values: Sequence[float]) -> float:
    """How far apart the rounds were: the largest over the smallest, 1.0 for no difference."""
    smallest = min(values)
    return max(values) / smallest if smallest > 0 else float("inf")
