"""Exit codes of a run, for schedulers and scripts. The guide docs/guide/running-pipelines.md has the same table."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """The exit code of the process of a run."""

    DONE = 0
    """All available rows are processed, or the run was stopped on request."""
    FAILED = 1
    """A stage, a store or Spark failed in a way that a retry does not cure."""
    CONFIGURATION = 2
    """The pipeline cannot be run as it is written."""
    REFUSED = 3
    """The checkpoint state, the schema of a store, or the owner of a target does not match this pipeline."""
    STOPPED_BY_CHECK = 4
    """A data check stopped the run."""
    AWAY = 5
    """The brokers or a store were away for longer than the run may wait."""
    START_AGAIN = 75
    """Only between driver and supervisor: Spark is lost, and another driver may go on."""
    INTERRUPTED = 130
    """Stopped before it was done."""


FINAL = frozenset(ExitCode) - {ExitCode.START_AGAIN}
"""Exit codes after which another driver would end the same way."""
