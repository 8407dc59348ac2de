"""Unit tests for pipelines: given rows with event times, expect rows. No broker is needed. The guide is testing-pipelines.md."""

from __future__ import annotations

from pathlib import Path

from catchment.pipelines.declaration.loading import load
from catchment.pipelines.declaration.pipeline import Pipeline
from catchment.pipelines.trials.trial import Trial

__all__ = ["Trial", "trial"]


def trial(pipeline: Pipeline | str | Path) -> Trial:
    """A trial of a pipeline, given as the object or by its file. Raises `Mistakes`."""
    if isinstance(pipeline, Pipeline):
        return Trial(pipeline.check(), pipeline.folder)
    loaded = load(Path(pipeline))
    return Trial(loaded.specification, loaded.folder)
