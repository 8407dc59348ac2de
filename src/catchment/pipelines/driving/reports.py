"""What is known of a pipeline from outside: its run file, corrected by whether anybody runs it."""

from __future__ import annotations

from typing import Any, Final

from catchment.pipelines.driving.run_file import is_running, read_run
from catchment.pipelines.home import Home

_ENDED: Final = ("stopped", "failed")
_UNDER_WAY: Final = ("starting", "running", "waiting")


def report(home: Home) -> dict[str, Any]:
    """The run file's content; a run that ended without saying so was killed."""
    run = read_run(home)
    if run is None:
        if not home.run_file.exists():
            return {"pipeline": home.pipeline, "state": "never run"}
        damaged = (
            f"{home.run_file} cannot be understood. A run writes it anew; checkpoints and stores do not depend on it."
        )
        return {"pipeline": home.pipeline, "state": "unknown", "error": damaged}
    if run["state"] not in _ENDED and not is_running(home):
        return with_queries_ended(run | {"state": "killed"})
    return run


def with_queries_ended(run: dict[str, Any]) -> dict[str, Any]:
    """A run that has ended, with no query that seems to be under way: who was killed could not say so."""
    stopped = {"state": "stopped", "waits_for": None, "overdue": None, "rows_per_s": 0.0}
    queries = [
        one | (stopped if one.get("state") in _UNDER_WAY else {"rows_per_s": 0.0}) for one in run.get("queries", ())
    ]
    return run | {"queries": queries} if queries else run
