"""Where the parts of a running application are: its files in one folder, and its topics as its pipeline declares them."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from catchment.applications.catalogue import pipeline_file
from catchment.applications.running.board_table import StoreTable
from catchment.pipelines.declaration.loading import load
from catchment.pipelines.declaration.specification import LakeSink, PipelineSpecification, StoreSink, TopicOut
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home

_SQLITE: Final = "sqlite:///"
_PIPELINE: Final = "pipeline.py"


@dataclass(frozen=True)
class Layout:
    """One application in one folder."""

    name: str
    folder: Path
    pipeline: str
    source: str
    """The topic of events."""
    lateness_s: float
    """How late they may be; 0 if the pipeline has no event time."""
    group: str
    """The consumer group with the offsets that the pipeline has processed."""
    clean: str
    late: str
    quarantine: str
    tables: tuple[str, ...]
    commands: str | None
    """The topic that the actuator reads."""
    lake: Path | None
    """The for-ever store of the cleaned events."""
    store: StoreTable | None
    """The first table of the real-time store."""

    @property
    def acted(self) -> str:
        """The topic of the actuator's acknowledgements."""
        return f"{self.commands}.acted"

    @property
    def file(self) -> Path:
        """The pipeline, which the user may change and run again."""
        return self.folder / _PIPELINE

    @property
    def ledger(self) -> Path:
        return self.folder / "ledger.db"

    @property
    def home(self) -> Home:
        """Where the pipeline keeps its checkpoints."""
        return Home(self.folder / "pipelines", self.pipeline)


def lay_out(name: str, folder: Path) -> Layout:
    """Copy the pipeline into the folder, unless it exists and may have been edited, and read what it declares."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / _PIPELINE
    if not file.exists():
        shutil.copyfile(pipeline_file(name), file)
    specification = load(file).specification
    graph = Graph(specification)
    source_stage = next(iter(graph.source_stages.values()))
    lakes = [one for one in specification.sinks if isinstance(one, LakeSink)]
    stores = [one for one in specification.sinks if isinstance(one, StoreSink)]
    return Layout(
        name=name,
        folder=folder,
        pipeline=specification.pipeline,
        source=source_stage.source.topic,
        lateness_s=(source_stage.source.lateness or 0) / 1000,
        group=f"{specification.pipeline}.{source_stage.name}",
        clean=source_stage.boundary.topic,
        late=graph.late,
        quarantine=graph.quarantine,
        tables=tuple(one.topic for one in specification.tables.values()),
        commands=_commands(specification),
        lake=next((folder / one.lake for one in lakes if one.from_ == source_stage.name), None),
        store=next((_store_table(folder, one, specification) for one in stores), None),
    )


def _store_table(folder: Path, sink: StoreSink, specification: PipelineSpecification) -> StoreTable:
    conditions = [one.when for one in specification.alerts.values() if one.when and one.from_ == sink.from_]
    return StoreTable(folder / sink.store.removeprefix(_SQLITE), sink.table, next(iter(conditions), None))


def _commands(specification: PipelineSpecification) -> str | None:
    """The one topic that all alerts of an application go to."""
    topics = [
        target.topic for one in specification.alerts.values() for target in one.to if isinstance(target, TopicOut)
    ]
    return topics[0] if topics else None
