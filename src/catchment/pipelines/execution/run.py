"""A pipeline's queries, built, started in order and stopped."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import chain
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery
from pyspark.sql.streaming.readwriter import DataStreamWriter

from catchment.pipelines.declaration.addresses import broker_settings, brokers
from catchment.pipelines.declaration.durations import interval
from catchment.pipelines.declaration.specification import WrittenRows
from catchment.pipelines.execution.claiming import ClaimedTopic, claim_topics
from catchment.pipelines.execution.quarantine import table_quarantine_records
from catchment.pipelines.execution.rows.boundaries import to_records
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.execution.sinks import changelog_handler, for_each_batch, sink_writer, topic_writer
from catchment.pipelines.execution.source_stage import source_stage_records
from catchment.pipelines.execution.stages import stage_rows
from catchment.pipelines.execution.topics import make_topics
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home
from catchment.spark.checkpoint.progress import SparkCheckpoint

_EMPTY_BATCHES: Final = "spark.sql.streaming.noDataMicroBatches.enabled"


def run_context(
    spark: SparkSession,
    graph: Graph,
    *,
    home: Home,
    folder: Path,
    servers: str | None = None,
    versions: Mapping[str, int] | None = None,
    rows: Mapping[str, WrittenRows] | None = None,
) -> RunContext:
    """The context of a run, from the pipeline's declaration and the caller's overrides."""
    specification = graph.specification
    return RunContext(
        spark,
        # A query that started from scratch has a topic of its own.
        Graph(specification, versions),
        servers=brokers(specification, servers),
        kafka=broker_settings(specification),
        home=home,
        folder=folder,
        versions=versions or {},
        rows=rows or {},
    )


class Run:
    """The queries of one pipeline in one session."""

    def __init__(self, context: RunContext) -> None:
        self.context = context
        self.queries: dict[str, StreamingQuery] = {}
        self.claimed: list[ClaimedTopic] = []
        """The topics that the run owns."""
        self._writers: dict[str, DataStreamWriter] = {}

    def build(self, only: Collection[str] | None = None) -> None:
        """Create the topics, and the plans of all queries or of some; raises errors before any is started.

        Queries that others read are always planned: that gives their columns.
        """
        make_topics(self.context, self._parallelism)
        *below, sinks = self.context.graph.order
        try:
            for name in (*chain(*below), *(one for one in sinks if only is None or one in only)):
                writer = self._writer(name)
                if only is None or name in only:
                    self._writers[name] = writer
            self.claimed += claim_topics(self.context, self._writers)
        except BaseException:
            self.context.at_end.close()
            raise

    def add(self, sinks: Collection[str]) -> None:
        """Create the plans of sinks that `build` has left out."""
        for name in sinks:
            self._writers[name] = self._writer(name)
        self.claimed += claim_topics(self.context, sinks)

    def start(self) -> None:
        """Start all queries, those that others read first."""
        for name in self._writers:
            self.start_query(name)

    def start_query(self, name: str, *, available_now: bool = False) -> StreamingQuery:
        """Start or restart one query: without an end, or to process the available rows and end."""
        context = self.context.spark.sparkContext
        # Queries share the cores evenly: a busy one does not delay the others.
        context.setLocalProperty("spark.scheduler.pool", name)
        trigger = (
            {"availableNow": True}
            if available_now
            else {"processingTime": interval(self.context.graph.trigger_ms(name))}
        )
        with self._empty_batches(name, is_endless=not available_now):
            query = self._writers[name].queryName(f"{self.context.pipeline}.{name}").trigger(**trigger).start()
        self.queries[name] = query
        return query

    def drain(self) -> None:
        """Process the available rows, level by level, and end."""
        for level in self.context.graph.order:
            started = [self.start_query(name, available_now=True) for name in level if name in self._writers]
            for query in started:
                query.awaitTermination()
        self.context.at_end.close()

    def has_finished(self, name: str) -> bool:
        """Whether a query has finished all of its planned batches."""
        checkpoint = SparkCheckpoint.at(self.context.checkpoint(name))
        return checkpoint.newest_planned() == checkpoint.newest_finished()

    def stop(self) -> None:
        """Stop all queries at once: each may take as long as its current batch."""
        with ThreadPoolExecutor(max(1, len(self.queries))) as threads:
            list(threads.map(StreamingQuery.stop, self.queries.values()))
        self.context.at_end.close()

    @contextmanager
    def _empty_batches(self, name: str, *, is_endless: bool) -> Iterator[None]:
        """Disable empty batches for a query with an end and processing-time timers: it would ask for one more batch for ever.

        A query takes the value of the setting when it starts.
        """
        if is_endless or not self.context.graph.goes_by_clock(name):
            yield
            return
        settings = self.context.spark.conf
        before = settings.get(_EMPTY_BATCHES, "true") or "true"
        settings.set(_EMPTY_BATCHES, "false")
        try:
            yield
        finally:
            settings.set(_EMPTY_BATCHES, before)

    @property
    def _parallelism(self) -> int:
        return self.context.graph.specification.parallelism or self.context.spark.sparkContext.defaultParallelism

    def _writer(self, name: str) -> DataStreamWriter:
        context, graph = self.context, self.context.graph
        if name in graph.source_stages:
            return topic_writer(context, source_stage_records(context, graph.source_stages[name]), name)
        if name in graph.table_quarantines:
            return topic_writer(context, table_quarantine_records(context, graph.table_quarantines[name]), name)
        if name in graph.processing_stages:
            return self._stage_writer(name)
        return sink_writer(context, graph.sinks_by_query[name], name)

    def _stage_writer(self, name: str) -> DataStreamWriter:
        context, stage = self.context, self.context.graph.processing_stages[name]
        assert stage.boundary is not None, "a processing stage without a boundary is computed by its sinks"
        rows = stage_rows(context, stage, name)
        context.schemas[name] = rows.schema
        topic, key, rows_as = stage.boundary.topic, stage.boundary.key, context.written_rows(name).format
        if stage.declaration.mode == "append":
            return topic_writer(context, to_records(rows, topic, key, rows_as=rows_as), name)
        handler = changelog_handler(context, topic, key, name, rows_as)
        checkpointed = rows.writeStream.outputMode(stage.declaration.mode).option(
            "checkpointLocation", context.checkpoint(name)
        )
        return checkpointed.foreachBatch(for_each_batch(handler))
