"""A pipeline on trial: given rows, expect rows.

def test_a_burst_is_counted():
    city = trial(pipeline)
    city.given(reports=[{"id": "a", "district": "Harbour", "kind": "fire", "at": "2026-01-01T00:00:01Z"}])
    city.expect("board", [{"district": "Harbour", "count": 1}])
"""

from __future__ import annotations

import shutil
import tempfile
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from catchment.pipelines.declaration.specification import PipelineSpecification
from catchment.pipelines.execution.session import carry_modules
from catchment.pipelines.graph import Graph
from catchment.pipelines.naming import alert_sink
from catchment.pipelines.trials.matching import difference
from catchment.pipelines.trials.rows import Given
from catchment.pipelines.trials.run import TrialRun, last_of_each_key, trial_session

QUARANTINE: Final = "quarantine"
LATE: Final = "late"


class UnknownName(ValueError):
    """A test names something that the pipeline does not have."""


class Trial:
    """Batches of rows for a pipeline's sources and tables, and what its stages make of them."""

    def __init__(self, specification: PipelineSpecification, folder: Path) -> None:
        carry_modules(folder)
        self._graph = Graph(specification)
        self._folder = folder
        self._batches: list[Mapping[str, Sequence[Given]]] = []
        self._run: TrialRun | None = None

    def given(self, batch: Mapping[str, Sequence[Given]] | None = None, /, **rows: Sequence[Given]) -> Trial:
        """One more batch: rows for any number of sources and tables."""
        batch = {**(batch or {}), **rows}
        known = [*self._graph.sources, *self._graph.tables]
        for name in batch:
            if name not in known:
                raise UnknownName(f"no source or table is named {name}; there is {', '.join(known)}")
        if self._run is not None:
            raise ValueError("rows are given after results were asked for: give all batches first, then expect")
        self._batches.append(batch)
        return self

    def rows(self, name: str) -> list[dict[str, Any]]:
        """The rows of a stage, or those that fired an alert. Of rows that are updated the last of each key, as in a store."""
        specification = self._graph.specification
        stage = specification.stages.get(name)
        if name in (QUARANTINE, LATE) and stage is None:
            return self._started().aside(f"{specification.pipeline}.{name}")
        batches = self.batches(name)
        if stage is not None and stage.mode == "update":
            return list(last_of_each_key(batches, stage.key))
        return [row for batch in batches for row in batch]

    def batches(self, name: str) -> list[list[dict[str, Any]]]:
        """What a stage gave in each batch; behind those that were given comes what the last watermark released."""
        run = self._started()
        if name in self._graph.source_stages or name in self._graph.processing_stages:
            run.run(name)
            return run.results[name]
        if name in self._graph.specification.alerts:
            sink = alert_sink(name)
            run.run_alert(sink)
            return run.results[sink]
        specification = self._graph.specification
        known = [*specification.stages, *specification.alerts, QUARANTINE, LATE]
        raise UnknownName(f"no stage or alert is named {name}; there is {', '.join(known)}")

    @property
    def quarantine(self) -> list[dict[str, Any]]:
        """Events that cannot be used: their columns, and `_error`, `_stage` and `_value`."""
        return self.rows(QUARANTINE)

    @property
    def late(self) -> list[dict[str, Any]]:
        """Events that came too late."""
        return self.rows(LATE)

    def expect(self, name: str, rows: Sequence[Mapping[str, Any]]) -> Trial:
        """AssertionError with a table of the differences unless a stage, an alert, `quarantine` or `late` has these rows."""
        found = difference(rows, self.rows(name))
        if found is not None:
            # Not by `assert`: pytest would add what it knows of the condition, which is the table again.
            raise AssertionError(f"{name} is not as expected\n{found}")
        return self

    def _started(self) -> TrialRun:
        if self._run is None:
            scratch = Path(tempfile.mkdtemp(prefix="catchment-trial-"))
            weakref.finalize(self, shutil.rmtree, scratch, ignore_errors=True)
            names = [*self._graph.sources, *self._graph.tables]
            given = {name: [list(batch.get(name, ())) for batch in self._batches] for name in names}
            self._run = TrialRun(trial_session(), self._graph, self._folder, scratch, given)
        return self._run
