"""The signature of every query of a pipeline, without a broker: each stage's code is applied to streams that stay empty.

Only the columns matter here, and those of a source come from its schema.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from catchment.pipelines.durations import interval
from catchment.pipelines.execution.decoding import decoding_options
from catchment.pipelines.execution.intake import check_columns
from catchment.pipelines.execution.pipeline_session import read_stream
from catchment.pipelines.execution.row_values import require_crossing, row_schema
from catchment.pipelines.execution.steps import apply
from catchment.pipelines.execution.workplace import Workplace
from catchment.pipelines.graph import Boundary, Graph, Intake, Outlet, Step
from catchment.pipelines.home import Home
from catchment.pipelines.planning.signature import Current, Operator, Part, Signature
from catchment.pipelines.planning.state_of_plans import state_of
from catchment.pipelines.planning.streaming_check import require_streamable
from catchment.pipelines.planning.targets import boundary_target, sink_target
from catchment.pipelines.specification import Alert, StoreSink, TopicIn
from catchment.spark.formats.decoding import Decoding


def signatures(spark: SparkSession, graph: Graph, home: Home, folder: Path) -> Current:
    """Those of all queries; raises what is wrong with a stage's code or columns."""
    place = Workplace(spark, graph, servers="", kafka={}, home=home, folder=folder)
    return _Signing(place).all()


def columns_of(topic: TopicIn, folder: Path) -> StructType:
    """The columns that a topic's values decode to."""
    decoding = Decoding.read(decoding_options(topic, folder), [topic.topic])
    kind = dict(decoding.fields())["value"]
    return kind if isinstance(kind, StructType) else StructType().add("value", kind)


@dataclass
class _Signing:
    place: Workplace

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
        schema = columns_of(intake.source, self.place.folder)
        check_columns(schema, intake)
        self.place.schemas[intake.name] = schema
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
            row_schema=_row_schema(intake.name, schema, intake.boundary),
        )

    def _step(self, step: Step) -> Signature:
        rows = self._rows(step, step.stage.mode)
        self.place.schemas[step.name] = rows.schema
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
            row_schema=_row_schema(step.name, rows.schema, step.boundary),
        )

    def _outlet(self, outlet: Outlet) -> Signature:
        step = self.graph.steps.get(outlet.reads)
        is_inline = step is not None and step.boundary is None
        # What tells of silence adds rows and changes none.
        adds = isinstance(outlet.target, Alert) and outlet.target.absent_for is not None
        rows = (
            self._rows(step, "append" if adds else step.stage.mode)
            if step is not None and is_inline
            else self._input(outlet.reads)
        )
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

    def _rows(self, step: Step, mode: str) -> DataFrame:
        rows = apply(self.place, step, [self._input(one) for one in step.inputs])
        require_streamable(rows, step.name, mode)
        return rows

    def _input(self, name: str) -> DataFrame:
        """An empty stand-in for what a query reads."""
        if name in self.graph.tables:
            rows = self.place.spark.createDataFrame([], columns_of(self.graph.tables[name], self.place.folder))
            return F.broadcast(rows)
        if name in self.graph.sources:
            return self._stream(name, columns_of(self.graph.sources[name], self.place.folder))
        boundary = self.graph.boundary(name)
        assert boundary is not None, f"{name} has a topic if somebody reads it"
        rows = self._stream(name, self.place.schemas[name])
        if boundary.event_time is None:
            return rows
        return rows.withWatermark(boundary.event_time, interval(boundary.lateness_ms))

    def _stream(self, name: str, schema: StructType) -> DataFrame:
        nothing = read_stream(self.place.spark, name).format("rate").load()
        return nothing.select(*(F.lit(None).cast(one.dataType).alias(one.name) for one in schema))

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


def _row_schema(name: str, schema: StructType, boundary: Boundary) -> str:
    """The Avro schema of a stage's rows; SettingsError names the columns that cannot go through a topic."""
    require_crossing(schema, name, boundary.rows_as)
    return row_schema(schema)


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
