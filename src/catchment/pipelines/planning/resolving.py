"""Every column that a pipeline names, resolved against the columns that are there, before any query starts.

Stages are gone through in the order in which they read one another. Each one's code is applied to streams that stay empty, so
Spark itself tells the columns of the result. What is wrong is collected, so that all of it is reported at once: a stage whose code
fails hides only what reads it.
"""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path as FilePath
from typing import Final

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructType

from catchment.client.errors import ClientError, SettingsError
from catchment.pipelines import column_checks
from catchment.pipelines.alerts.absence import LAST_SEEN, absent_rows
from catchment.pipelines.alerts.candidates import candidate_rows
from catchment.pipelines.alerts.rule import AlertRule
from catchment.pipelines.durations import interval
from catchment.pipelines.execution.alerting import event_time_of
from catchment.pipelines.execution.decoding import decoding_options
from catchment.pipelines.execution.intake import check_reserved
from catchment.pipelines.execution.pipeline_session import read_stream
from catchment.pipelines.execution.row_values import require_crossing
from catchment.pipelines.execution.steps import computed
from catchment.pipelines.execution.workplace import Workplace
from catchment.pipelines.graph import Boundary, Graph, Outlet, Step
from catchment.pipelines.mistakes import Finding, Path, Place, Unresolved, dotted
from catchment.pipelines.naming import alert_name, alert_outlet, is_intake
from catchment.pipelines.planning import kept_columns
from catchment.pipelines.planning.spark_columns import SparkColumns, objection
from catchment.pipelines.planning.state_of_plans import state_of
from catchment.pipelines.planning.streaming_check import require_streamable
from catchment.pipelines.revisions import counted
from catchment.pipelines.specification import Alert, TopicIn, TopicOut
from catchment.spark.formats.decoding import Decoding

_ALWAYS: Final = "true"
_EVENT_TIME: Final = "event_time"


@dataclass(frozen=True)
class Resolved:
    """Rows without a row in them, for what their columns and their plans say."""

    inputs: dict[str, DataFrame] = field(default_factory=dict)
    """What a query reads, by the names of tables, of sources, and of intakes or steps with a boundary."""
    results: dict[str, DataFrame] = field(default_factory=dict)
    """What each step computes."""
    schemas: dict[str, StructType] = field(default_factory=dict)
    """The columns of each source."""


def resolve(place: Workplace) -> Resolved:
    """The rows of all that is declared; raises `Unresolved` with everything that is wrong.

    The schemas of the topics between queries are left in `place`.
    """
    resolving = _Resolving(place)
    resolving.all()
    if resolving.found:
        raise Unresolved(list(dict.fromkeys(resolving.found)))
    return resolving.resolved


def columns_of(topic: TopicIn, folder: FilePath) -> StructType:
    """The columns that a topic's values decode to."""
    decoding = Decoding.read(decoding_options(topic, folder), [topic.topic])
    kind = dict(decoding.fields())["value"]
    return kind if isinstance(kind, StructType) else StructType().add("value", kind)


@dataclass
class _Resolving:
    place: Workplace
    found: list[Finding] = field(default_factory=list)
    resolved: Resolved = field(default_factory=Resolved)
    doubtful: set[str] = field(default_factory=set)
    """What has columns though something is wrong with it: of what reads it, Spark would say what only follows from that."""

    @property
    def graph(self) -> Graph:
        return self.place.graph

    def all(self) -> None:
        self._tables()
        self._sources()
        self._intakes()
        for step in self.graph.sorted_steps:
            self._step(step)
        self._sinks()
        for name, alert in self.graph.specification.alerts.items():
            self._alert(name, alert)

    def _tables(self) -> None:
        for name, table in self.graph.tables.items():
            if (schema := self._schema(("tables", name, "schema"), table)) is not None:
                rows = self.place.spark.createDataFrame([], schema)
                self.resolved.inputs[name] = F.broadcast(rows)
                self.found += column_checks.of_table(name, table, SparkColumns(f"table {name}", rows))

    def _sources(self) -> None:
        for name, source in self.graph.sources.items():
            if (schema := self._schema(("sources", name, "schema"), source)) is not None:
                self.resolved.schemas[name] = schema
                rows = self.resolved.inputs[name] = self._stream(name, schema)
                self._note(name, column_checks.of_source(name, source, SparkColumns(f"source {name}", rows)))

    def _intakes(self) -> None:
        """What is cleaned has the columns that it came with."""
        specification = self.graph.specification
        for intake in self.graph.intakes.values():
            if (schema := self.resolved.schemas.get(intake.source_name)) is None:
                continue
            if intake.source_name in self.doubtful:
                self.doubtful.add(intake.name)
            self._boundary(intake.name, schema, intake.boundary)
            self._attempt(("sources", intake.source_name, "schema"), partial(check_reserved, schema, intake))
        for name, stage in specification.stages.items():
            sources = [one for one in stage.from_ if one in self.resolved.schemas]
            if len(sources) == 1 and (stage.checks or stage.dedupe or is_intake(specification, stage)):
                given = SparkColumns(f"source {sources[0]}", self.resolved.inputs[sources[0]])
                self._note(name, column_checks.of_cleaning(name, stage, given))
                if is_intake(specification, stage):
                    self._note(name, column_checks.of_result(name, stage, SparkColumns(f"stage {name}", given.rows)))

    def _step(self, step: Step) -> None:
        inputs = [self.resolved.inputs.get(one) for one in step.inputs]
        frames = [one for one in inputs if one is not None]
        if len(frames) < len(inputs):
            return
        try:
            rows = computed(self.place, step, frames)
        except Exception as error:
            self.found.append(_failed(error, step, self.place.folder))
            return
        self.resolved.results[step.name] = rows
        specification = self.graph.specification
        again = [Finding(*one) for one in counted(specification, step.name, lambda: _operators(rows))]
        self.found += again
        if again or self.doubtful & set(step.inputs):
            self.doubtful.add(step.name)
        else:
            self._attempt(("stages", step.name), lambda: require_streamable(rows, step.name, step.stage.mode))
        columns = SparkColumns(f"stage {step.name}", rows)
        self._note(step.name, column_checks.of_result(step.name, step.stage, columns))
        if step.boundary is not None:
            self._boundary(step.name, rows.schema, step.boundary)

    def _boundary(self, name: str, schema: StructType, boundary: Boundary) -> None:
        """Rows as they are read from the topic between two queries."""
        self.place.schemas[name] = schema
        self._attempt(("stages", name), lambda: require_crossing(schema, name, boundary.rows_as))
        rows = self.resolved.inputs[name] = self._stream(name, schema)
        if (event_time := boundary.event_time) is not None and name not in self.doubtful:
            path: Path = ("stages", name, _EVENT_TIME)
            self._attempt(path, lambda: self._watermarked(name, rows, event_time, boundary.lateness_ms))

    def _watermarked(self, name: str, rows: DataFrame, event_time: str, lateness_ms: int) -> None:
        self.resolved.inputs[name] = rows.withWatermark(event_time, interval(lateness_ms))

    def _sinks(self) -> None:
        outlets = [one for one in self.graph.outlets.values() if not isinstance(one.target, Alert)]
        for number, (sink, outlet) in enumerate(zip(self.graph.specification.sinks, outlets, strict=True)):
            if (columns := self._columns(outlet)) is not None:
                stage = self.graph.specification.stages.get(sink.from_)
                wrong = list(column_checks.of_sink(number, sink, columns))
                self.found += wrong or kept_columns.of_sink(number, sink, stage, columns)

    def _alert(self, name: str, alert: Alert) -> None:
        outlet = self.graph.outlets[alert_outlet(name)]
        if (columns := self._columns(outlet)) is None:
            return
        wrong = list(column_checks.of_alert(name, alert, columns))
        self.found += wrong
        if not wrong and outlet.reads not in self.doubtful:
            self._attempt(("alerts", name), lambda: self._candidates(outlet, alert, columns.rows))

    def _candidates(self, outlet: Outlet, alert: Alert, rows: DataFrame) -> None:
        """Raises what the query of an alert would, with all that the declaration says of it."""
        event_time = event_time_of(self.graph, outlet.reads, rows.columns)
        step = self.graph.steps.get(outlet.reads)
        if alert.absent_for is not None:
            if step is not None and step.boundary is None:
                # What tells of silence adds rows and changes none.
                require_streamable(rows, step.name, "append")
            rows, event_time = absent_rows(rows, alert.key, event_time, alert.absent_for), LAST_SEEN
        topics = [one for one in alert.to if isinstance(one, TopicOut)]
        rule = AlertRule(
            pipeline=self.place.pipeline,
            name=alert_name(outlet.name),
            when=alert.when or _ALWAYS,
            key=alert.key,
            event_time=event_time,
            topics=tuple(one.topic for one in topics),
            topic_keys={one.topic: one.key for one in topics if one.key},
            message=alert.message,
        )
        candidate_rows(rows, rule)

    def _columns(self, outlet: Outlet) -> SparkColumns | None:
        """Those of what an outlet reads, by the name that its author knows; None if they are not known."""
        known = self.resolved.results.get(outlet.reads)
        rows = self.resolved.inputs.get(outlet.reads) if known is None else known
        kind = "source" if outlet.target.from_ in self.graph.sources else "stage"
        return None if rows is None else SparkColumns(f"{kind} {outlet.target.from_}", rows)

    def _note(self, name: str, found: Iterable[Finding]) -> None:
        """Take down what is wrong with a source or a stage; without its time, what reads it cannot be judged as a stream."""
        for one in found:
            self.found.append(one)
            if _EVENT_TIME in one.path:
                self.doubtful.add(name)

    def _attempt(self, path: Path, attempt: Callable[[], object]) -> None:
        try:
            attempt()
        except (SettingsError, PySparkException, Py4JJavaError) as error:
            what = str(error) if isinstance(error, SettingsError) else objection(error).what
            self.found.append(Finding(path, f"{dotted(path)}: {what}"))

    def _schema(self, path: Path, topic: TopicIn) -> StructType | None:
        try:
            return columns_of(topic, self.place.folder)
        except SettingsError as error:
            self.found.append(Finding(path, f"{dotted(path)}: {error}"))
            return None

    def _stream(self, name: str, schema: StructType) -> DataFrame:
        nothing = read_stream(self.place.spark, name).format("rate").load()
        return nothing.select(*(F.lit(None).cast(one.dataType).alias(one.name) for one in schema))


def _operators(rows: DataFrame) -> list[str]:
    """The kinds of operators with state that compute rows."""
    return [one.kind for one in state_of(rows).operators]


def _failed(error: Exception, step: Step, folder: FilePath) -> Finding:
    """What a stage's code raises is its author's to correct; raises it again where it says that Spark or a broker is away."""
    is_away = isinstance(error, ConnectionError | TimeoutError) or (
        isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
    )
    if is_away or (isinstance(error, ClientError) and not isinstance(error, SettingsError)):
        raise error
    what, line = objection(error, step.names)
    if step.stage.sql is not None:
        path: Path = ("stages", step.name, "sql")
        return Finding((*path, line) if line else path, f"{dotted(path)}: {what}")
    path = ("stages", step.name, "function")
    return Finding(path, f"{dotted(path)}: {what}", _authors_line(error, step, folder))


def _authors_line(error: Exception, step: Step, folder: FilePath) -> Place | None:
    """The innermost line of the file with the stage's function, or of one beside the pipeline's."""
    own = getattr(getattr(step.stage.function, "__code__", None), "co_filename", None)
    found = [
        Place(one.filename, one.lineno)
        for one in traceback.extract_tb(error.__traceback__)
        if one.lineno and (one.filename == own or _is_beside(FilePath(one.filename), folder))
    ]
    return found[-1] if found else None


def _is_beside(file: FilePath, folder: FilePath) -> bool:
    return file.resolve().is_relative_to(folder.resolve()) and "site-packages" not in file.parts
