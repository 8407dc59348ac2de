"""The signature of every query of a pipeline, without a broker: from what its stages make of streams that stay empty."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from catchment.pipelines.declaration.specification import Alert, LakeSink, StoreSink, TopicSink
from catchment.pipelines.execution.rows.row_values import row_schema
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.graph import Boundary, Graph, ProcessingStage, Sink, SourceStage
from catchment.pipelines.home import Home
from catchment.pipelines.ownership.targets import OwnedTarget, owned_sink, topic_target
from catchment.pipelines.planning.resolving import Resolved, resolve
from catchment.pipelines.planning.signature import Current, Operator, Part, Signature, Target
from catchment.pipelines.planning.state_of_plans import state_of


def signatures(spark: SparkSession, graph: Graph, home: Home, folder: Path) -> Current:
    """Those of all queries; raises `Unresolved` with what is wrong with the stages' code or columns."""
    context = RunContext(spark, graph, servers="", kafka={}, home=home, folder=folder)
    return _Signing(context, resolve(context)).all()


@dataclass
class _Signing:
    context: RunContext
    resolved: Resolved

    @property
    def graph(self) -> Graph:
        return self.context.graph

    def all(self) -> Current:
        found: dict[str, Signature] = {}
        for level in self.graph.order:
            for name in level:
                found[name] = self._signature(name)
        return Current(version=self.graph.specification.version, queries=found)

    def _signature(self, name: str) -> Signature:
        if name in self.graph.source_stages:
            return self._source_stage(self.graph.source_stages[name])
        if name in self.graph.table_quarantines:
            return Signature(kind="intake", reads=(self.graph.table_quarantines[name].table.topic,))
        if name in self.graph.processing_stages:
            return self._stage(self.graph.processing_stages[name])
        return self._sink(self.graph.sinks_by_query[name])

    def _source_stage(self, source_stage: SourceStage) -> Signature:
        schema = self.context.schemas[source_stage.name]
        keys = _keys(source_stage.dedupe, schema)
        return Signature(
            kind="intake",
            reads=(source_stage.source.topic,),
            state=(Operator(kind="deduplication within the watermark", parts=keys),) if keys else (),
            uses=source_stage.dedupe,
            columns=_columns(schema),
            event_time=source_stage.boundary.event_time,
            lateness_ms=source_stage.boundary.lateness_ms,
            target=boundary_target(source_stage.name, source_stage.boundary),
            rows_as=source_stage.boundary.rows_as,
            row_schema=row_schema(schema),
        )

    def _stage(self, stage: ProcessingStage) -> Signature:
        rows = self.resolved.results[stage.name]
        state = state_of(rows)
        assert stage.boundary is not None, "a processing stage without a boundary is computed by its sinks"
        return Signature(
            kind="step",
            reads=self._topics(stage.inputs),
            upstream=self._upstream(stage.inputs),
            mode=stage.declaration.mode,
            state=state.operators,
            uses=state.uses,
            columns=_columns(rows.schema),
            event_time=stage.boundary.event_time,
            lateness_ms=stage.boundary.lateness_ms,
            target=boundary_target(stage.name, stage.boundary),
            rows_as=stage.boundary.rows_as,
            row_schema=row_schema(rows.schema),
        )

    def _sink(self, sink: Sink) -> Signature:
        stage = self.graph.processing_stages.get(sink.reads)
        is_inline = stage is not None and stage.boundary is None
        rows = self.resolved.results[sink.reads] if is_inline else self.resolved.inputs[sink.reads]
        inputs = stage.inputs if stage is not None and is_inline else (sink.reads,)
        state = state_of(rows)
        return Signature(
            kind="outlet",
            reads=self._topics(inputs),
            upstream=self._upstream(inputs),
            mode=stage.declaration.mode if stage is not None and is_inline else "append",
            state=(*state.operators, *_absence(sink, rows.schema), *self._table_key(sink, rows.schema)),
            uses=state.uses,
            columns={} if isinstance(sink.target, Alert) else _columns(rows.schema),
            required=_required(sink, rows.schema),
            target=None if isinstance(sink.target, Alert) else sink_target(sink.target, self.context.folder),
        )

    def _table_key(self, sink: Sink, schema: StructType) -> tuple[Operator, ...]:
        """What identifies a row of a store's table, which is state as well."""
        if not isinstance(sink.target, StoreSink):
            return ()
        stage = self.graph.specification.stages.get(sink.reads)
        key = sink.target.key or (stage.key if stage else ())
        return (Operator(kind="table", parts=_keys(key, schema)),)

    def _topics(self, inputs: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._topic(one) for one in inputs if one not in self.graph.tables)

    def _topic(self, name: str) -> str:
        if name in self.graph.sources:
            return self.graph.sources[name].topic
        boundary = self.graph.boundary(name)
        assert boundary is not None, f"{name} has a topic if a stage reads it"
        return boundary.topic

    def _upstream(self, inputs: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(one for one in inputs if one in self.graph.source_stages or one in self.graph.processing_stages)


def _columns(schema: StructType) -> dict[str, str]:
    return {one.name: one.dataType.simpleString() for one in schema}


def _absence(sink: Sink, schema: StructType) -> tuple[Operator, ...]:
    """The timers of an alert by absence, one for each key."""
    if not isinstance(sink.target, Alert) or sink.target.absent_for is None:
        return ()
    return (Operator(kind="timers", parts=_keys(sink.target.key, schema)),)


def _required(sink: Sink, schema: StructType) -> tuple[str, ...]:
    return tuple(one.name for one in schema if isinstance(sink.target, StoreSink) and not one.nullable)


def _keys(names: tuple[str, ...], schema: StructType) -> tuple[Part, ...]:
    known = [one for one in names if one in schema.fieldNames()]
    return tuple(Part(name=f"key {name}", what=schema[name].dataType.simpleString()) for name in known)


def boundary_target(stage: str, boundary: Boundary) -> Target:
    """The topic that a stage writes, in its first version."""
    return _target(topic_target(boundary.topic, is_boundary=True), stage)


def sink_target(sink: StoreSink | LakeSink | TopicSink, folder: Path) -> Target:
    """The table, the lake or the topic of a sink."""
    return _target(owned_sink(sink, folder), sink.from_)


def _target(place: OwnedTarget, stage: str) -> Target:
    return Target(name=place.name, place=place.digest, stage=stage, has_versions=place.has_versions)
