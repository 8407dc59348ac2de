"""Where a pipeline keeps what must survive it: the checkpoints of its queries, and which process runs it."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Final

HOME_VARIABLE: Final = "CATCHMENT_PIPELINES_HOME"


def user_state() -> Path:
    """The files of Catchment that belong to this user."""
    return Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state") / "catchment"


def default_home() -> Path:
    """The default home of the pipelines of this user."""
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
        """Spark's checkpoint of one query. Another version of the pipeline starts from scratch beside it."""
        return self.folder / "checkpoints" / f"{query}-v{version}"

    def realtime_checkpoint(self, query: str, version: int) -> Path:
        """The same for an alert in real-time mode, whose checkpoint has another form. No query has a dot in its name."""
        return self.checkpoint(f"{query}.realtime", version)

    def checkpoints(self, query: str, version: int) -> list[Path]:
        """All checkpoints of a version of a query: that of micro-batches, and that of real-time mode."""
        both = (self.checkpoint(query, version), self.realtime_checkpoint(query, version))
        return [one for one in both if one.exists()]

    @property
    def run_file(self) -> Path:
        """The run that is going on: its process and the address of its status."""
        return self.folder / "run.json"

    @property
    def plan_file(self) -> Path:
        """The signatures of the queries that made the state in the checkpoints."""
        return self.folder / "plan.json"

    @property
    def reset_file(self) -> Path:
        """The list of what a reset is about to delete; the file exists until all of it is deleted."""
        return self.folder / "reset.json"
