"""Every column that a pipeline names, resolved against the columns that are there, before any query starts.

Stages are gone through in the order in which they read one another. Each one's code is applied to streams that stay empty, so
Spark itself finds the columns of the result. What is wrong is collected, so that all of it is reported at once: a stage whose code
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
from catchment.pipelines.alerts.absence import LAST_SEEN, absent_rows
from catchment.pipelines.alerts.candidates import candidate_rows
from catchment.pipelines.alerts.rule import AlertRule
from catchment.pipelines.checks import columns as column_checks
from catchment.pipelines.checks.revisions import counted
from catchment.pipelines.declaration.durations import interval
from catchment.pipelines.declaration.specification import Alert, TopicIn, TopicOut
from catchment.pipelines.errors import Finding, Location, Path, Unresolved, dotted
from catchment.pipelines.execution.alerting import event_time_of
from catchment.pipelines.execution.rows.decoding import decoding_options
from catchment.pipelines.execution.rows.row_values import require_crossing
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.execution.session import read_stream
from catchment.pipelines.execution.source_stage import check_reserved
from catchment.pipelines.execution.stages import computed
from catchment.pipelines.graph import Boundary, Graph, ProcessingStage, Sink
from catchment.pipelines.naming import alert_name, alert_sink, is_source_stage
from catchment.pipelines.planning import kept_columns
from catchment.pipelines.planning.spark_columns import SparkColumns, objection, require_streamable
from catchment.pipelines.planning.state_of_plans import state_of
from catchment.spark.formats.decoding import Decoding

_ALWAYS: Final = "true"
_EVENT_TIME: Final = "event_time"


@dataclass(frozen=True)
class Resolved:
    """Rows without a row in them, for what their columns and their plans say."""

    inputs: dict[str, DataFrame] = field(default_factory=dict)
    """What a query reads, by names of tables, sources, and stages with a boundary."""
    results: dict[str, DataFrame] = field(default_factory=dict)
    """What each processing stage computes."""
    schemas: dict[str, StructType] = field(default_factory=dict)
    """The columns of each source."""


def resolve(context: RunContext) -> Resolved:
    """The rows of all that is declared; raises `Unresolved` with everything that is wrong.

    The schemas of the topics between queries are left in the context.
    """
    resolving = _Resolving(context)
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
    context: RunContext
    found: list[Finding] = field(default_factory=list)
    resolved: Resolved = field(default_factory=Resolved)
    doubtful: set[str] = field(default_factory=set)
    """What has columns though something is wrong with it: of what reads it, Spark would say what only follows from that."""

    @property
    def graph(self) -> Graph:
        return self.context.graph

    def all(self) -> None:
        self._tables()
        self._sources()
        self._intakes()
        for stage in self.graph.sorted_stages:
            self._stage(stage)
        self._sinks()
        for name, alert in self.graph.specification.alerts.items():
            self._alert(name, alert)

    def _tables(self) -> None:
        for name, table in self.graph.tables.items():
            if (schema := self._schema(("tables", name, "schema"), table)) is not None:
                rows = self.context.spark.createDataFrame([], schema)
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
        for source_stage in self.graph.source_stages.values():
            if (schema := self.resolved.schemas.get(source_stage.source_name)) is None:
                continue
            if source_stage.source_name in self.doubtful:
                self.doubtful.add(source_stage.name)
            self._boundary(source_stage.name, schema, source_stage.boundary)
            self._attempt(
                ("sources", source_stage.source_name, "schema"), partial(check_reserved, schema, source_stage)
            )
        for name, stage in specification.stages.items():
            sources = [one for one in stage.from_ if one in self.resolved.schemas]
            if len(sources) == 1 and (stage.checks or stage.dedupe or is_source_stage(specification, stage)):
                given = SparkColumns(f"source {sources[0]}", self.resolved.inputs[sources[0]])
                self._note(name, column_checks.of_cleaning(name, stage, given))
                if is_source_stage(specification, stage):
                    self._note(name, column_checks.of_result(name, stage, SparkColumns(f"stage {name}", given.rows)))

    def _stage(self, stage: ProcessingStage) -> None:
        inputs = [self.resolved.inputs.get(one) for one in stage.inputs]
        frames = [one for one in inputs if one is not None]
        if len(frames) < len(inputs):
            return
        try:
            rows = computed(self.context, stage, frames)
        except Exception as error:
            self.found.append(_failed(error, stage, self.context.folder))
            return
        self.resolved.results[stage.name] = rows
        specification = self.graph.specification
        again = [Finding(*one) for one in counted(specification, stage.name, lambda: _operators(rows))]
        self.found += again
        if again or self.doubtful & set(stage.inputs):
            self.doubtful.add(stage.name)
        else:
            self._attempt(("stages", stage.name), lambda: require_streamable(rows, stage.name, stage.declaration.mode))
        columns = SparkColumns(f"stage {stage.name}", rows)
        self._note(stage.name, column_checks.of_result(stage.name, stage.declaration, columns))
        if stage.boundary is not None:
            self._boundary(stage.name, rows.schema, stage.boundary)

    def _boundary(self, name: str, schema: StructType, boundary: Boundary) -> None:
        """Rows as they are read from the topic between two queries."""
        self.context.schemas[name] = schema
        self._attempt(("stages", name), lambda: require_crossing(schema, name, boundary.rows_as))
        rows = self.resolved.inputs[name] = self._stream(name, schema)
        if (event_time := boundary.event_time) is not None and name not in self.doubtful:
            path: Path = ("stages", name, _EVENT_TIME)
            self._attempt(path, lambda: self._watermarked(name, rows, event_time, boundary.lateness_ms))

    def _watermarked(self, name: str, rows: DataFrame, event_time: str, lateness_ms: int) -> None:
        self.resolved.inputs[name] = rows.withWatermark(event_time, interval(lateness_ms))

    def _sinks(self) -> None:
        sinks = [one for one in self.graph.sinks.values() if not isinstance(one.target, Alert)]
        for number, (target, sink) in enumerate(zip(self.graph.specification.sinks, sinks, strict=True)):
            if (columns := self._columns(sink)) is not None:
                stage = self.graph.specification.stages.get(target.from_)
                wrong = list(column_checks.of_sink(number, target, columns))
                self.found += wrong or kept_columns.of_sink(number, target, stage, columns)

    def _alert(self, name: str, alert: Alert) -> None:
        sink = self.graph.sinks[alert_sink(name)]
        if (columns := self._columns(sink)) is None:
            return
        wrong = list(column_checks.of_alert(name, alert, columns))
        self.found += wrong
        if not wrong and sink.reads not in self.doubtful:
            self._attempt(("alerts", name), lambda: self._candidates(sink, alert, columns.rows))

    def _candidates(self, sink: Sink, alert: Alert, rows: DataFrame) -> None:
        """Raises what the query of an alert would, with all that the declaration says of it."""
        event_time = event_time_of(self.graph, sink.reads, rows.columns)
        stage = self.graph.processing_stages.get(sink.reads)
        if alert.absent_for is not None:
            if stage is not None and stage.boundary is None:
                # An alert by absence adds rows and changes none.
                require_streamable(rows, stage.name, "append")
            rows, event_time = absent_rows(rows, alert.key, event_time, alert.absent_for), LAST_SEEN
        topics = [one for one in alert.to if isinstance(one, TopicOut)]
        rule = AlertRule(
            pipeline=self.context.pipeline,
            name=alert_name(sink.name),
            when=alert.when or _ALWAYS,
            key=alert.key,
            event_time=event_time,
            topics=tuple(one.topic for one in topics),
            topic_keys={one.topic: one.key for one in topics if one.key},
            message=alert.message,
        )
        candidate_rows(rows, rule)

    def _columns(self, sink: Sink) -> SparkColumns | None:
        """Those of what a sink reads, by the name that its author knows; None if they are not known."""
        known = self.resolved.results.get(sink.reads)
        rows = self.resolved.inputs.get(sink.reads) if known is None else known
        kind = "source" if sink.target.from_ in self.graph.sources else "stage"
        return None if rows is None else SparkColumns(f"{kind} {sink.target.from_}", rows)

    def _note(self, name: str, found: Iterable[Finding]) -> None:
        """Take down what is wrong with a source or a stage; without its time, what reads it cannot be checked as a stream."""
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
            return columns_of(topic, self.context.folder)
        except SettingsError as error:
            self.found.append(Finding(path, f"{dotted(path)}: {error}"))
            return None

    def _stream(self, name: str, schema: StructType) -> DataFrame:
        nothing = read_stream(self.context.spark, name).format("rate").load()
        return nothing.select(*(F.lit(None).cast(one.dataType).alias(one.name) for one in schema))


def _operators(rows: DataFrame) -> list[str]:
    """The kinds of operators with state that compute rows."""
    return [one.kind for one in state_of(rows).operators]


def _failed(error: Exception, stage: ProcessingStage, folder: FilePath) -> Finding:
    """What a stage's code raises is its author's to correct; raises it again where it says that Spark or a broker is away."""
    is_away = isinstance(error, ConnectionError | TimeoutError) or (
        isinstance(error, Py4JError) and not isinstance(error, Py4JJavaError)
    )
    if is_away or (isinstance(error, ClientError) and not isinstance(error, SettingsError)):
        raise error
    what, line = objection(error, stage.names)
    if stage.declaration.sql is not None:
        path: Path = ("stages", stage.name, "sql")
        return Finding((*path, line) if line else path, f"{dotted(path)}: {what}")
    path = ("stages", stage.name, "function")
    return Finding(path, f"{dotted(path)}: {what}", _authors_line(error, stage, folder))


def _authors_line(error: Exception, stage: ProcessingStage, folder: FilePath) -> Location | None:
    """The innermost line of the file with the stage's function, or of one beside the pipeline's."""
    own = getattr(getattr(stage.declaration.function, "__code__", None), "co_filename", None)
    found = [
        Location(one.filename, one.lineno)
        for one in traceback.extract_tb(error.__traceback__)
        if one.lineno and (one.filename == own or _is_beside(FilePath(one.filename), folder))
    ]
    return found[-1] if found else None


def _is_beside(file: FilePath, folder: FilePath) -> bool:
    return file.resolve().is_relative_to(folder.resolve()) and "site-packages" not in file.parts
