"""A new server: the time from its start to the first acknowledged record, and its memory when it is idle."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from catchment.bench.measure import Measure
from catchment.bench.target import Target

START_BAR = 0.15
IDLE_MEMORY_BAR = 0.2
_SETTLE_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Startup:
    """One more server of the same kind, with an empty directory."""

    name: str = "startup"

    @property
    def measures(self) -> Sequence[Measure]:
        return (
            Measure("start", "start to first acknowledged record", "s", False, bar=START_BAR),
            Measure("idle", "resident when idle", "MB", False, bar=IDLE_MEMORY_BAR),
        )

    def run(self, target: Target) -> dict[str, float]:
        with target.factory() as server:
            time.sleep(_SETTLE_SECONDS)
            return {"start": server.start_seconds, "idle": server.process.resident_bytes() / 1e6}
