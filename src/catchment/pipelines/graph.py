"""The queries that a declared pipeline becomes: source stages, processing stages and sinks, with a topic wherever one reads another.

A stage boundary is a topic written exactly once: Spark chains stateful operators only in append mode, where nothing shows until
a window closes, and each sink has a query of its own that must not hold up the others.

A *source stage* reads a topic of events, quarantines what is broken, splits off what is late or a duplicate, and writes the rest. Only it
can recognise a late row, by its own watermark, so every stream with event time or with a quarantine starts with one. A stage without
code is one; for a stage with code that reads such a source, one is added.

A table has a *quarantine* query only if its broken records go to the quarantine: queries that join the table read its topic and skip them.

A *processing stage* is a stage with code. It is a query of its own if other stages read it or if it names a topic; otherwise each sink
that reads it computes it. A *sink* writes to a store, a lake or a topic, or is an alert.

A query that starts from scratch in a later version writes to a topic of its own, so that what reads it never sees rows of both.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from graphlib import TopologicalSorter
from typing import Final

from catchment.pipelines.declaration.specification import (
    Alert,
    Check,
    LakeSink,
    PipelineSpecification,
    RowFormat,
    Source,
    Stage,
    StageTopic,
    StoreSink,
    Table,
    TopicSink,
)
from catchment.pipelines.naming import (
    LATE_SUFFIX,
    QUARANTINE_SUFFIX,
    alert_sink,
    has_topic,
    is_source_stage,
    made_source_stage,
    named_sinks,
    sink_query,
    table_quarantines,
    topic_in_version,
    topic_of,
)

_TIMERS_MS: Final = 1000


@dataclass(frozen=True)
class Boundary:
    """A topic between two queries."""

    topic: str
    key: tuple[str, ...]
    partitions: int | None
    event_time: str | None
    lateness_ms: int
    is_changelog: bool
    """Whether a later record of a key replaces an earlier one."""
    rows_as: RowFormat | None = None
    """The format that its author asks for."""


@dataclass(frozen=True)
class SourceStage:
    """Events from a topic, cleaned."""

    name: str
    source_name: str
    source: Source
    checks: tuple[Check, ...]
    dedupe: tuple[str, ...]
    boundary: Boundary


@dataclass(frozen=True)
class TableQuarantine:
    """The query that quarantines the broken records of a table."""

    name: str
    table_name: str
    table: Table


@dataclass(frozen=True)
class ProcessingStage:
    """A stage with code."""

    name: str
    declaration: Stage
    inputs: tuple[str, ...]
    """What its code reads, in order: names of tables, sources, and stages with a boundary."""
    names: tuple[str, ...]
    """The same by the names that the author gave them."""
    boundary: Boundary | None


@dataclass(frozen=True)
class Sink:
    """A declared sink or an alert."""

    name: str
    reads: str
    """A stage, or a source that needs no source stage."""
    target: StoreSink | LakeSink | TopicSink | Alert

    @property
    def query(self) -> str:
        """The name of its query."""
        return sink_query(self.name)


class Graph:
    """All queries of a pipeline, each in its first version by default."""

    def __init__(self, specification: PipelineSpecification, versions: Mapping[str, int] | None = None) -> None:
        self.specification = specification
        self._versions = versions or {}
        self.tables: dict[str, Table] = specification.tables
        self.sources: dict[str, Source] = specification.sources
        self.source_stages: dict[str, SourceStage] = {}
        self.processing_stages: dict[str, ProcessingStage] = {}
        self.sinks: dict[str, Sink] = {}
        self.table_quarantines: dict[str, TableQuarantine] = {
            query: TableQuarantine(query, name, self.tables[name])
            for query, name in table_quarantines(specification).items()
        }
        for name, stage in specification.stages.items():
            self._add_stage(name, stage)
        for name, sink in self._sinks():
            self.sinks[name] = sink
        self.sinks_by_query: dict[str, Sink] = {one.query: one for one in self.sinks.values()}

    @cached_property
    def order(self) -> list[list[str]]:
        """The names of the queries, level by level: none reads what a later level writes."""
        levels: dict[str, int] = dict.fromkeys((*self.table_quarantines, *self.source_stages), 0)
        for stage in self.sorted_stages:
            below = [levels[one] for one in stage.inputs if one in levels]
            levels[stage.name] = max(below, default=-1) + (1 if stage.boundary else 0)
        written = [name for name in (*self.source_stages, *self.processing_stages) if self.boundary(name) is not None]
        queries = {name: levels[name] for name in (*self.table_quarantines, *written)}
        last = max(queries.values(), default=-1) + 1
        return [
            [name for name in queries if queries[name] == level] for level in range(last) if level in queries.values()
        ] + [list(self.sinks_by_query)]

    @cached_property
    def sorted_stages(self) -> list[ProcessingStage]:
        """Processing stages, each after those that it reads."""
        reads = {name: stage.inputs for name, stage in self.processing_stages.items()}
        return [
            self.processing_stages[name]
            for name in TopologicalSorter(reads).static_order()
            if name in self.processing_stages
        ]

    def boundary(self, name: str) -> Boundary | None:
        """The topic that a stage writes; None for a processing stage that its sinks compute."""
        return (
            self.source_stages[name].boundary if name in self.source_stages else self.processing_stages[name].boundary
        )

    def streams_of(self, stage: str) -> list[str]:
        """What a processing stage reads that is no table."""
        return [one for one in self.processing_stages[stage].inputs if one not in self.tables]

    def inputs(self, query: str) -> tuple[str, ...]:
        """What a query reads: names of tables, sources, and the stages that write its topics."""
        if query in self.source_stages:
            return (self.source_stages[query].source_name,)
        if query in self.table_quarantines:
            return (self.table_quarantines[query].table_name,)
        if query in self.processing_stages:
            return self.processing_stages[query].inputs
        reads = self.sinks_by_query[query].reads
        is_computed = reads in self.processing_stages and self.processing_stages[reads].boundary is None
        return self.processing_stages[reads].inputs if is_computed else (reads,)

    def target(self, query: str) -> StoreSink | LakeSink | TopicSink | Alert | None:
        """What a sink writes to; None for any other query."""
        sink = self.sinks_by_query.get(query)
        return sink.target if sink is not None else None

    def goes_by_clock(self, query: str) -> bool:
        """Whether a query has timers: they are checked in every batch, so each trigger runs one even without new rows."""
        target = self.target(query)
        return isinstance(target, Alert) and target.absent_for is not None

    def key_of(self, name: str) -> tuple[str, ...]:
        """The columns that identify a row of a source or a stage: the stage's key, or else that of its topic."""
        stage = self.specification.stages.get(name)
        boundary = None if name in self.sources else self.boundary(name)
        return (stage.key if stage else ()) or (boundary.key if boundary else ())

    def trigger_ms(self, query: str) -> int:
        """How often a query looks for rows, at most."""
        trigger_ms = self.specification.trigger
        if isinstance(lake := self.target(query), LakeSink):
            return max(trigger_ms, lake.every)
        return max(trigger_ms, _TIMERS_MS) if self.goes_by_clock(query) else trigger_ms

    def topics(self) -> Iterator[Boundary]:
        """The topics between queries."""
        for name in (*self.source_stages, *self.processing_stages):
            if (boundary := self.boundary(name)) is not None:
                yield boundary

    @property
    def quarantine(self) -> str:
        """The topic of records that cannot be used, unchanged."""
        return f"{self.specification.pipeline}{QUARANTINE_SUFFIX}"

    @property
    def late(self) -> str:
        """The topic of records that arrived too late."""
        return f"{self.specification.pipeline}{LATE_SUFFIX}"

    def _add_stage(self, name: str, stage: Stage) -> None:
        if is_source_stage(self.specification, stage):
            self.source_stages[name] = self._source_stage(name, stage.from_[0], stage)
            return
        inputs = tuple(self._input(one, name) for one in stage.from_)
        self.processing_stages[name] = ProcessingStage(
            name, stage, inputs, stage.from_, self._boundary_of_stage(name, stage)
        )

    def _input(self, wanted: str, stage: str | None = None) -> str:
        """What a processing stage or a sink reads for a name: itself, or the source stage made for it."""
        made = made_source_stage(self.specification, wanted, stage)
        if made is None:
            return wanted
        if made.name not in self.source_stages:
            self.source_stages[made.name] = self._source_stage(made.name, wanted, made.stage)
        return made.name

    def _source_stage(self, name: str, source_name: str, stage: Stage | None) -> SourceStage:
        source = self.sources[source_name]
        # The key and the topic of a stage with code are those of the rows that its code returns.
        own = stage if stage is not None and not stage.has_code else None
        to = own.to if own else None
        boundary = Boundary(
            topic=self._topic(name, to),
            key=(to.key if to else ()) or (own.key if own else ()),
            partitions=to.partitions if to else None,
            event_time=source.event_time,
            lateness_ms=source.lateness or 0,
            is_changelog=False,
            rows_as=to.format if to else None,
        )
        return SourceStage(
            name,
            source_name,
            source,
            checks=stage.checks if stage else (),
            dedupe=stage.dedupe if stage else (),
            boundary=boundary,
        )

    def _boundary_of_stage(self, name: str, stage: Stage) -> Boundary | None:
        if not has_topic(self.specification, name):
            return None
        key = (stage.to.key if stage.to else ()) or stage.key
        return Boundary(
            topic=self._topic(name, stage.to),
            key=key,
            partitions=stage.to.partitions if stage.to else None,
            event_time=stage.event_time,
            lateness_ms=self._lateness_ms(name),
            # If records of one key hold several rows, the last record does not replace the others.
            is_changelog=stage.mode == "update" and set(stage.key) <= set(key),
            rows_as=stage.to.format if stage.to else None,
        )

    def _lateness_ms(self, name: str) -> int:
        """How late rows of a source or a stage may arrive. A stage that passes rows on does not order them."""
        if name in self.sources:
            return self.sources[name].lateness or 0
        if name in self.tables:
            return 0
        stage = self.specification.stages[name]
        return max(map(self._lateness_ms, stage.from_)) if stage.lateness is None else stage.lateness

    def _topic(self, name: str, to: StageTopic | None) -> str:
        return topic_in_version(topic_of(self.specification, name, to), self._versions.get(name, 1))

    def _sinks(self) -> Iterator[tuple[str, Sink]]:
        for name, sink in named_sinks(self.specification):
            yield name, Sink(name, self._input(sink.from_), sink)
        for alert_name, alert in self.specification.alerts.items():
            name = alert_sink(alert_name)
            yield name, Sink(name, self._input(alert.from_), alert)
