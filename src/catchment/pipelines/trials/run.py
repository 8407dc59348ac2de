"""The queries of a pipeline, run one after the other over the batches that a test gives.

Each is the query that would run with a broker, of the same functions: only what it reads and where its rows go is replaced.
"""

from __future__ import annotations

import atexit
import json
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from catchment.client.errors import SettingsError
from catchment.pipelines.alerts.candidates import candidate_rows
from catchment.pipelines.alerts.decisions import Candidate, Memory
from catchment.pipelines.alerts.rule import AlertRule
from catchment.pipelines.declaration.specification import Alert, Source, Table
from catchment.pipelines.execution.alerting import event_time_of
from catchment.pipelines.execution.quarantine import broken_records
from catchment.pipelines.execution.rows.boundaries import to_records, with_watermark
from catchment.pipelines.execution.rows.decoding import decoding_options
from catchment.pipelines.execution.rows.row_values import decoding_options as row_decoding_options
from catchment.pipelines.execution.rows.row_values import encoding_options, row_columns
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.execution.source_stage import cleaned_records
from catchment.pipelines.execution.stages import apply
from catchment.pipelines.graph import Graph, ProcessingStage, Sink, SourceStage, TableQuarantine
from catchment.pipelines.home import Home
from catchment.pipelines.naming import alert_name
from catchment.pipelines.planning.resolving import columns_of
from catchment.pipelines.trials.rows import (
    Record,
    TrialLog,
    aside_row,
    event_record,
    result_row,
    table_record,
    typed_row,
)
from catchment.pipelines.trials.streams import TrialStreams
from catchment.spark import session
from catchment.spark.formats.decoding import Decoding
from catchment.spark.launch.settings import ROCKSDB, STATE_STORE
from catchment.spark.sink.rows import headers_from_json
from catchment.spark.sink.values import ValueEncoding

_WITH_REGISTRY: Final = ("avro", "protobuf")
Batches = list[list[Any]]
_FOR_SPARK: Final = {"spark.ui.enabled": "false"}
_FOR_SESSION: Final = {
    # A few rows need no more, and each of these is a task in every batch.
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.session.timeZone": "UTC",
    # State of one's own needs it.
    STATE_STORE: ROCKSDB,
}
MESSAGE: Final = "_message"


@dataclass
class TrialRun:
    """One pipeline over given batches: `given` has the rows of each source and table, batch by batch."""

    spark: SparkSession
    graph: Graph
    folder: Path
    scratch: Path
    given: dict[str, Batches]
    results: dict[str, list[list[dict[str, Any]]]] = field(default_factory=dict)
    """The rows of each query that has run, batch by batch."""
    asides: dict[str, list[Record]] = field(default_factory=dict)
    """The records in the quarantine, and those that came late."""

    def __post_init__(self) -> None:
        self._log = TrialLog()
        self._streams = TrialStreams(self.spark, self._log, self.scratch)
        home = Home(self.scratch, self.graph.specification.pipeline)
        self._context = RunContext(self.spark, self.graph, servers="", kafka={}, home=home, folder=self.folder)
        for name, source in self.graph.sources.items():
            schema = columns_of(source, self.folder)
            batches = [[event_record(row, source, schema) for row in rows] for rows in self.given.get(name, [])]
            self._log.append(name, batches)
        for name, table in self.graph.tables.items():
            self._log.append(name, [[table_record(row, table) for row in rows] for rows in self.given.get(name, [])])

    def run(self, name: str) -> None:
        """Run a query, after those that it reads, unless it has run."""
        if name in self.results:
            return
        if name in self.graph.source_stages:
            self._run_source_stage(self.graph.source_stages[name])
        else:
            stage = self.graph.processing_stages[name]
            for above in self.graph.streams_of(name):
                if above not in self.graph.sources:
                    self.run(above)
            self._run_stage(stage)

    def run_intakes(self) -> None:
        for name in self.graph.source_stages:
            self.run(name)
        for table_intake in self.graph.table_quarantines.values():
            self._run_table_quarantine(table_intake)

    def run_alert(self, name: str) -> None:
        """Run the query of an alert, after those that it reads."""
        if name in self.results:
            return
        sink = self.graph.sinks[name]
        stage = self.graph.processing_stages.get(sink.reads)
        is_inline = stage is not None and stage.boundary is None
        inputs = stage.inputs if stage is not None and is_inline else (sink.reads,)
        for above in inputs:
            if above in self.graph.source_stages or above in self.graph.processing_stages:
                self.run(above)
        frames = [self._input(one, name) for one in inputs]
        rows = apply(self._context, stage, frames) if stage is not None and is_inline else frames[0]
        fired: list[list[dict[str, Any]]] = []
        collect = alert_collector(self.graph, sink, rows.schema, fired)
        self._run_query(name, rows, stage.declaration.mode if stage is not None and is_inline else "append", collect)
        self.results[name] = fired

    def aside(self, topic: str) -> list[dict[str, Any]]:
        """Quarantined or late records, by their reason; only source stages split them off."""
        self.run_intakes()
        return [aside_row(record) for record in self.asides.get(topic, [])]

    def _run_source_stage(self, source_stage: SourceStage) -> None:
        context = self._context
        options = self._decoding(source_stage.source) | {"onDecodeError": "null", "includeBytes": "true"}
        records = cleaned_records(
            context, source_stage, self._streams.stream(source_stage.source_name, source_stage.name, options)
        )
        written: list[list[Record]] = []

        def collect(rows: DataFrame, batch_id: int) -> None:
            found = [(row["topic"], _record(row)) for row in _written(rows)]
            written.append([record for topic, record in found if topic == source_stage.boundary.topic])
            for topic, record in found:
                if topic != source_stage.boundary.topic:
                    self.asides.setdefault(topic, []).append(record)

        self._run_query(source_stage.name, records, "append", collect)
        self._log.append(source_stage.name, written)
        self.results[source_stage.name] = [self._rows(source_stage.name, batch) for batch in written]

    def _run_table_quarantine(self, source_stage: TableQuarantine) -> None:
        if source_stage.name in self.results:
            return
        options = self._decoding(source_stage.table) | {"onDecodeError": "null", "includeBytes": "true"}
        rows = self._streams.stream(source_stage.table_name, source_stage.name, options)
        records = broken_records(self._context, source_stage, rows)

        def collect(rows: DataFrame, batch_id: int) -> None:
            found = [_record(row) for row in rows.toArrow().to_pylist()]
            self.asides.setdefault(self.graph.quarantine, []).extend(found)

        self._run_query(source_stage.name, records, "append", collect)
        self.results[source_stage.name] = []

    def _run_stage(self, stage: ProcessingStage) -> None:
        rows = apply(self._context, stage, [self._input(one, stage.name) for one in stage.inputs])
        self._context.schemas[stage.name] = rows.schema
        found: list[list[dict[str, Any]]] = []
        written: list[list[Record]] = []

        def collect(rows: DataFrame, batch_id: int) -> None:
            rows.persist()
            found.append(rows.toArrow().to_pylist())
            if stage.boundary is not None:
                rows_as = self._context.written_rows(stage.name).format
                records = to_records(rows, stage.boundary.topic, stage.boundary.key, rows_as=rows_as)
                written.append([_record(row) for row in _written(records)])
            rows.unpersist()

        self._run_query(stage.name, rows, stage.declaration.mode, collect)
        self._log.append(stage.name, written)
        self.results[stage.name] = found

    def _run_query(self, name: str, rows: DataFrame, mode: str, collect: Callable[[DataFrame, int], None]) -> None:
        checkpoint = self._context.checkpoint(name)

        def handle(rows: DataFrame, batch_id: int) -> None:
            self._streams.tell_watermark(name, checkpoint, batch_id)
            collect(rows, batch_id)
            self._streams.tell_batch(name, batch_id + 1)

        self._streams.tell_batch(name, 0)
        writer = rows.writeStream.outputMode(mode).option("checkpointLocation", checkpoint)
        query = writer.queryName(f"trial {name}").foreachBatch(handle).trigger(availableNow=True).start()
        query.awaitTermination()

    def _input(self, name: str, query: str) -> DataFrame:
        if name in self.graph.tables:
            table = self.graph.tables[name]
            passing_by = {} if table.on_error == "fail" else {"onDecodeError": "null"}
            return F.broadcast(self._streams.table(name, query, self._decoding(table) | passing_by))
        if name in self.graph.sources:
            source = self.graph.sources[name]
            rows = self._streams.stream(name, query, self._decoding(source))
            return rows.select("value") if source.format == "text" else rows.select("value.*")
        boundary = self.graph.boundary(name)
        assert boundary is not None, f"{name} has a topic if a stage reads it"
        columns = self._context.schemas[name]
        options = row_decoding_options(columns, self._context.written_rows(name).format)
        return with_watermark(self._streams.stream(name, query, options).select(*row_columns(columns)), boundary)

    def _rows(self, name: str, records: list[Record]) -> list[dict[str, Any]]:
        """The rows of a boundary out of its records."""
        columns = self._context.schemas[name]
        if self._context.written_rows(name).format == "json":
            return [result_row(record, columns) for record in records]
        decoding = Decoding.read(row_decoding_options(columns, "avro"), [name])
        values = pa.RecordBatch.from_arrays([pa.array([one.value for one in records], pa.binary())], ["value"])
        wanted = to_arrow_schema(StructType().add("value", dict(decoding.fields())["value"]), timezone="UTC")
        rows: list[dict[str, Any]] = decoding.apply(values, wanted).column("value").to_pylist()
        return rows

    def _decoding(self, topic: Source | Table) -> dict[str, str]:
        """As declared; rows of binary formats are given as JSON, with the columns that the schema has."""
        if topic.format in _WITH_REGISTRY or isinstance(topic, Table):
            return _json(columns_of(topic, self.folder))
        return decoding_options(topic, self.folder)


def last_of_each_key(batches: Sequence[Sequence[dict[str, Any]]], key: tuple[str, ...]) -> Iterator[dict[str, Any]]:
    """What a store holds in the end."""
    last = {str([row[name] for name in key]): row for batch in batches for row in batch}
    yield from last.values()


def _json(schema: StructType) -> dict[str, str]:
    return {"valueFormat": "json", "valueSchema": schema.json()}


def _written(records: DataFrame) -> list[dict[str, Any]]:
    """Records as the sink would write them."""
    encoding = ValueEncoding.read(encoding_options(records), records.schema)
    return [row for batch in encoding.apply(records.toArrow().to_batches()) for row in batch.to_pylist()]


def _record(row: dict[str, Any]) -> Record:
    headers = tuple(headers_from_json(row.get("headers") or "[]"))
    return Record(row["key"], row["value"], row["timestamp"], headers)


def trial_session() -> SparkSession:
    """A session of its own on the Spark of this process, which is started if there is none and then ends with the process."""
    running = SparkSession.getActiveSession()
    if running is None:
        warehouse = {"spark.sql.warehouse.dir": str(Path(tempfile.gettempdir()) / f"catchment-trials-{os.getpid()}")}
        running = session("local[2]", app_name="catchment trials", config=_FOR_SPARK | warehouse)
        atexit.register(running.stop)
    own = running.newSession()
    for name, value in _FOR_SESSION.items():
        own.conf.set(name, value)
    return own


def alert_collector(
    graph: Graph, sink: Sink, schema: StructType, fired: list[list[dict[str, Any]]]
) -> Callable[[DataFrame, int], None]:
    """What takes the batches of the rows that an alert looks at, and adds what each of them fires."""
    alert = sink.target
    assert isinstance(alert, Alert), "only alerts are asked about"
    if alert.when is None:
        raise SettingsError(f"alert {sink.name} goes by the clock", "Only alerts with `when` can be tried.")
    rule = AlertRule(
        pipeline=graph.specification.pipeline,
        name=alert_name(sink.name),
        when=alert.when,
        key=alert.key,
        event_time=event_time_of(graph, sink.reads, schema.fieldNames()),
        cooldown_ms=alert.cooldown,
        message=alert.message,
    )
    memory = Memory(alert.cooldown * 1000)

    def collect(rows: DataFrame, batch_id: int) -> None:
        found = candidate_rows(rows, rule).toArrow().to_pylist()
        # A row without a time fires no alert: alerts are identified by it.
        decided = memory.decide(Candidate(**row) for row in found if row["event_time_us"] is not None)
        alerts = [json.loads(one.value) for one in decided.fired]
        fired.append([typed_row(one["row"], schema) | {MESSAGE: one["message"]} for one in alerts])

    return collect
