"""How many rows a batch should have so that it takes about as long as wanted: `maxOffsetsPerTrigger` = `auto`.

The number follows the ratio of the time wanted to the time taken. It at most doubles or halves from one batch to the next, so
that a stall of the sink, which says nothing about rows, is forgotten within a few batches.
"""

from __future__ import annotations

from typing import Final

FIRST_ROWS: Final = 100_000
LEAST_ROWS: Final = 100
"""Where a batch takes its time however few rows it has, fewer still would not help."""
MOST_ROWS: Final = 2**40
_LARGEST_STEP: Final = 2.0
_NEARLY_FULL: Final = 0.9
_SHORTEST_S: Final = 0.001


class BatchPace:
    """The number of rows for the next batch, from the last ones and the time they took."""

    def __init__(self, target_s: float) -> None:
        self._target_s = target_s
        self.rows = FIRST_ROWS

    def observe(self, rows: int, duration_s: float) -> None:
        """Take notice of a finished batch."""
        step = self._target_s / max(duration_s, _SHORTEST_S)
        # A batch that was small for want of records does not show how long a large one takes.
        if step > 1 and rows < self.rows * _NEARLY_FULL:
            return
        step = min(max(step, 1 / _LARGEST_STEP), _LARGEST_STEP)
        self.rows = min(max(round(min(rows, self.rows) * step), LEAST_ROWS), MOST_ROWS)
