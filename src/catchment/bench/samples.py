"""The little statistics that a benchmark needs."""

from __future__ import annotations

from collections.abc import Sequence


def percentile(ordered: Sequence[float], share: float) -> float:
    """The smallest sample that at least this share of all samples does not exceed (nearest rank)."""
    if not ordered:
        raise ValueError("no samples")
    rank = -(-len(ordered) * share // 1)
    return ordered[max(0, int(rank) - 1)]
