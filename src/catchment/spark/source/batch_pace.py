"""Choose the rows of a batch so that it takes about the target time: `maxOffsetsPerTrigger` = `auto`.

A batch has a fixed cost and a cost for each row. A line fitted through rows and durations of recent batches gives the fixed cost.
Rows get what is left of the target time. If the fixed cost is more than half of the target, rows get as long as the fixed cost, up to
ten times the target in all. Otherwise an overloaded machine would take ever smaller batches and never catch up.

The number at most doubles or halves from one batch to the next, so that the effect of one stall of the sink is gone after a few batches.
"""

from __future__ import annotations

from typing import Final

FIRST_ROWS: Final = 100_000
LEAST_ROWS: Final = 100
MOST_ROWS: Final = 2**40
_LARGEST_STEP: Final = 2.0
_NEARLY_FULL: Final = 0.9
_REPRESENTATIVE: Final = 0.1
"""A smaller part of a batch does not show how long a whole one takes."""
_SHORTEST_S: Final = 0.001
_MEMORY: Final = 0.6
"""The weight of a batch beside the one after it."""
_LARGEST_OWN_SHARE: Final = 2 / 3
_LONGEST: Final = 10
"""Times the target."""
_LEAST_SPREAD: Final = 0.1
"""Batches with nearly the same number of rows do not determine the line."""


class BatchPace:
    """The number of rows for the next batch, from the last ones and the time they took."""

    def __init__(self, target_s: float) -> None:
        self._target_s = target_s
        self._line = _Line()
        self.rows = FIRST_ROWS

    def observe(self, rows: int, duration_s: float) -> None:
        """Account for a finished batch."""
        duration_s = max(duration_s, _SHORTEST_S)
        self._line.add(rows, duration_s)
        if rows < self.rows * _REPRESENTATIVE:
            return
        own_s = min(self._line.own_s, duration_s * _LARGEST_OWN_SHARE, self._target_s * _LONGEST / 2)
        step = (max(self._target_s, 2 * own_s) - own_s) / (duration_s - own_s)
        if step > 1 and rows < self.rows * _NEARLY_FULL:
            return
        step = min(max(step, 1 / _LARGEST_STEP), _LARGEST_STEP)
        self.rows = min(max(round(min(rows, self.rows) * step), LEAST_ROWS), MOST_ROWS)


class _Line:
    """The line through rows and durations, whose intercept is the fixed cost of a batch. Old batches weigh less and less."""

    def __init__(self) -> None:
        self.own_s = 0.0
        self._weight = self._rows = self._seconds = self._squares = self._products = 0.0

    def add(self, rows: int, seconds: float) -> None:
        self._weight = self._weight * _MEMORY + 1
        self._rows = self._rows * _MEMORY + rows
        self._seconds = self._seconds * _MEMORY + seconds
        self._squares = self._squares * _MEMORY + rows * rows
        self._products = self._products * _MEMORY + rows * seconds
        mean_rows, mean_s = self._rows / self._weight, self._seconds / self._weight
        variance = self._squares / self._weight - mean_rows**2
        if variance > (mean_rows * _LEAST_SPREAD) ** 2:
            slope = (self._products / self._weight - mean_rows * mean_s) / variance
            self.own_s = max(0.0, mean_s - slope * mean_rows)
