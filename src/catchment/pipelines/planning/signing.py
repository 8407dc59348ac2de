"""The signature of every query of a pipeline, without a broker: from what its stages make of streams that stay empty."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import SparkSession
from pyspark.sql.types import StructType

from catchment.pipelines.execution.row_values import row_schema
from catchment.pipelines.execution.workplace import Workplace
from catchment.pipelines.graph import Graph, Intake, Outlet, Step
from catchment.pipelines.home import Home
from catchment.pipelines.planning.resolving import Resolved, resolve
from catchment.pipelines.planning.signature import Current, Operator, Part, Signature
from catchment.pipelines.planning.state_of_plans import state_of
from catchment.pipelines.planning.targets import boundary_target, sink_target
from catchment.pipelines.specification import Alert, StoreSink


def signatures(spark: SparkSession, graph: Graph, home: Home, folder: Path) -> Current:
    """Those of all queries; raises `Unresolved` with what is wrong with the stages' code or columns."""
    place = Workplace(spark, graph, servers="", kafka={}, home=home, folder=folder)
    return _Signing(place, resolve(place)).all()


@dataclass
class _Signing:
    place: Workplace
    resolved: Resolved

    @property
    def graph(self) -> Graph:
        return self.place.graph

    def all(self) -> Current:
        found: dict[str, Signature] = {}
        for level in self.graph.order:
            for name in level:
                found[name] = self._signature(name)
        return Current(version=self.graph.specification.version, queries=found)

    def _signature(self, name: str) -> Signature:
        if name in self.graph.intakes:
            return self._intake(self.graph.intakes[name])
        if name in self.graph.table_intakes:
            return Signature(kind="intake", reads=(self.graph.table_intakes[name].table.topic,))
        if name in self.graph.steps:
            return self._step(self.graph.steps[name])
        return self._outlet(self.graph.outlets_by_query[name])

    def _intake(self, intake: Intake) -> Signature:
        schema = self.place.schemas[intake.name]
        keys = _keys(intake.dedupe, schema)
        return Signature(
            kind="intake",
            reads=(intake.source.topic,),
            state=(Operator(kind="deduplication within the watermark", parts=keys),) if keys else (),
            uses=intake.dedupe,
            columns=_columns(schema),
            event_time=intake.boundary.event_time,
            lateness_ms=intake.boundary.lateness_ms,
            target=boundary_target(intake.name, intake.boundary),
            rows_as=intake.boundary.rows_as,
            row_schema=row_schema(schema),
        )

    def _step(self, step: Step) -> Signature:
        rows = self.resolved.results[step.name]
        state = state_of(rows)
        assert step.boundary is not None, "a step without a boundary is computed by its outlets"
        return Signature(
            kind="step",
            reads=self._topics(step.inputs),
            upstream=self._upstream(step.inputs),
            mode=step.stage.mode,
            state=state.operators,
            uses=state.uses,
            columns=_columns(rows.schema),
            event_time=step.boundary.event_time,
            lateness_ms=step.boundary.lateness_ms,
            target=boundary_target(step.name, step.boundary),
            rows_as=step.boundary.rows_as,
            row_schema=row_schema(rows.schema),
        )

    def _outlet(self, outlet: Outlet) -> Signature:
        step = self.graph.steps.get(outlet.reads)
        is_inline = step is not None and step.boundary is None
        rows = self.resolved.results[outlet.reads] if is_inline else self.resolved.inputs[outlet.reads]
        inputs = step.inputs if step is not None and is_inline else (outlet.reads,)
        state = state_of(rows)
        return Signature(
            kind="outlet",
            reads=self._topics(inputs),
            upstream=self._upstream(inputs),
            mode=step.stage.mode if step is not None and is_inline else "append",
            state=(*state.operators, *_absence(outlet, rows.schema), *self._table_key(outlet, rows.schema)),
            uses=state.uses,
            columns={} if isinstance(outlet.target, Alert) else _columns(rows.schema),
            required=_required(outlet, rows.schema),
            target=None if isinstance(outlet.target, Alert) else sink_target(outlet.target, self.place.folder),
        )

    def _table_key(self, outlet: Outlet, schema: StructType) -> tuple[Operator, ...]:
        """What identifies a row of a store's table, which is state as well."""
        if not isinstance(outlet.target, StoreSink):
            return ()
        stage = self.graph.specification.stages.get(outlet.reads)
        key = outlet.target.key or (stage.key if stage else ())
        return (Operator(kind="table", parts=_keys(key, schema)),)

    def _topics(self, inputs: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._topic(one) for one in inputs if one not in self.graph.tables)

    def _topic(self, name: str) -> str:
        if name in self.graph.sources:
            return self.graph.sources[name].topic
        boundary = self.graph.boundary(name)
        assert boundary is not None, f"{name} has a topic if somebody reads it"
        return boundary.topic

    def _upstream(self, inputs: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(one for one in inputs if one in self.graph.intakes or one in self.graph.steps)


def _columns(schema: StructType) -> dict[str, str]:
    return {one.name: one.dataType.simpleString() for one in schema}


def _absence(outlet: Outlet, schema: StructType) -> tuple[Operator, ...]:
    """The timers of an alert by absence, one for each key."""
    if not isinstance(outlet.target, Alert) or outlet.target.absent_for is None:
        return ()
    return (Operator(kind="timers", parts=_keys(outlet.target.key, schema)),)


def _required(outlet: Outlet, schema: StructType) -> tuple[str, ...]:
    return tuple(one.name for one in schema if isinstance(outlet.target, StoreSink) and not one.nullable)


def _keys(names: tuple[str, ...], schema: StructType) -> tuple[Part, ...]:
    known = [one for one in names if one in schema.fieldNames()]
    return tuple(Part(name=f"key {name}", what=schema[name].dataType.simpleString()) for name in known)
