"""When a Delta lake is compacted: every batch leaves small files. Plain Parquet cannot be compacted under its readers.

A run may be shorter than the time between two compactions, so what was done before it counts: the lake's own log says when that was.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from datetime import UTC, datetime

from catchment.pipelines.lakes.delta import DeltaLake
from catchment.pipelines.lakes.errors import LakeError

_logger = logging.getLogger(__name__)


class LakeUpkeep:
    """Of one lake, by the query that writes it."""

    def __init__(self, lake: DeltaLake, every_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._lake = lake
        self._every_s = every_s
        self._clock = clock
        self._due_s: float | None = None

    def keep(self) -> None:
        """Compact the lake if that is due; to be called after each batch."""
        try:
            if self._due_s is None:
                age_s = self._lake.compacted_before_s(datetime.now(UTC))
                self._due_s = self._clock() + (0.0 if age_s is None else max(0.0, self._every_s - age_s))
            if self._clock() < self._due_s:
                return
            self._due_s = self._clock() + self._every_s
            self._lake.maintain()
        except LakeError as error:
            # The rows are there. A lake that is away is told of by the next batch.
            _logger.warning("it is tried again later: %s", error)
