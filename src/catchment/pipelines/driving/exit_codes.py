"""How a run ends, as a number for schedulers and scripts. The guide docs/guide/running-pipelines.md has the same table."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process of a run returns."""

    DONE = 0
    """All that was there has been processed, or the run was told to stop and did."""
    FAILED = 1
    """A stage, a store or Spark failed in a way that trying again does not cure."""
    CONFIGURATION = 2
    """The pipeline cannot be run as it is written."""
    REFUSED = 3
    """The state in the checkpoints, a schema in a store, or the owner of what is written to, is not that of this pipeline."""
    STOPPED_BY_CHECK = 4
    """A check of the data says to stop."""
    AWAY = 5
    """The brokers or a store were away for longer than the run may wait."""
    START_AGAIN = 75
    """Between the driver and its supervisor alone: Spark is lost, and another one may go on."""
    INTERRUPTED = 130
    """Stopped before it was done."""


FINAL = frozenset(ExitCode) - {ExitCode.START_AGAIN}
"""What a driver returns when another one would end the same way."""
