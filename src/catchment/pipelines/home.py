"""Where a pipeline keeps what must survive it: the checkpoints of its queries, and who is running it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOME_VARIABLE: Final = "CATCHMENT_PIPELINES_HOME"


def user_state() -> Path:
    """What we keep for this user."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "catchment"


def default_home() -> Path:
    """Where pipelines of this user live unless told otherwise."""
    return Path(os.environ.get(HOME_VARIABLE) or user_state() / "pipelines")


@dataclass(frozen=True)
class Home:
    """The folder of one pipeline."""

    root: Path
    pipeline: str

    @property
    def folder(self) -> Path:
        return self.root / self.pipeline

    def checkpoint(self, query: str, version: int) -> Path:
        """Spark's notes on one query. Another version of the pipeline begins anew beside it."""
        return self.folder / "checkpoints" / f"{query}-v{version}"

    def realtime_checkpoint(self, query: str, version: int) -> Path:
        """The same for an alert in real-time mode, whose notes are of another form. No query has a dot in its name."""
        return self.checkpoint(f"{query}.realtime", version)

    def checkpoints(self, query: str, version: int) -> list[Path]:
        """All notes on a version of a query: those of micro-batches, and those of real-time mode."""
        both = (self.checkpoint(query, version), self.realtime_checkpoint(query, version))
        return [one for one in both if one.exists()]

    @property
    def run_file(self) -> Path:
        """Who runs the pipeline now: its process and the address of its status."""
        return self.folder / "run.json"

    @property
    def plan_file(self) -> Path:
        """What the state in the checkpoints was made by."""
        return self.folder / "plan.json"

    @property
    def reset_file(self) -> Path:
        """What a reset is about to delete; it is there until all of that is gone."""
        return self.folder / "reset.json"
