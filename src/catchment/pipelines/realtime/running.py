"""All real-time alerts of a pipeline in one session: checked, given enough task slots, and started."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from pyspark.errors import PySparkException

from catchment.client.errors import ClientError
from catchment.pipelines.declaration.specification import PipelineSpecification
from catchment.pipelines.execution.alerting import alert_rule, event_time_of
from catchment.pipelines.execution.rows.decoding import is_file
from catchment.pipelines.execution.session import SOURCE_EVOLUTION, pipeline_session
from catchment.pipelines.naming import alert_sink, sink_query
from catchment.pipelines.realtime.connector_settings import require_readable_key
from catchment.pipelines.realtime.eligibility import StagePath, asking_alerts, path_to, reasons_against
from catchment.pipelines.realtime.plan_check import NotInRealTime, has_state, refusal_of_spark, require_allowed
from catchment.pipelines.realtime.query import RealtimeSource, alert_records, source_rows, staged_rows, start_alert
from catchment.spark.formats.json import schema as json_schema
from catchment.spark.launch.connector_jars import connector_jars
from catchment.spark.launch.settings import local_cores
from catchment.spark.options.connection import Connection

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from catchment.pipelines.execution.run_context import RunContext

_SHUFFLE: Final = "spark.sql.shuffle.partitions"


class Built(NamedTuple):
    """An alert that is ready to start, and how many tasks run all the time for it."""

    records: DataFrame
    slots: int


def realtime_alerts(specification: PipelineSpecification) -> list[str]:
    """The alerts that ask for real-time mode; NotInRealTime if one of them is not allowed."""
    names = asking_alerts(specification)
    for name in names:
        if reasons := reasons_against(specification, name):
            raise NotInRealTime(name, reasons)
    return names


def realtime_session(specification: PipelineSpecification, master: str, connection: Mapping[str, str]) -> SparkSession:
    """A session with Spark's own connector. A local master gets as many slots as the alerts need, whatever its cores."""
    shuffled = specification.parallelism or 1
    if (cores := local_cores(master)) is not None:
        needed = 0
        with closing(Connection.read(connection).new_cluster()) as cluster:
            for name in realtime_alerts(specification):
                path = _path(specification, name)
                has_code = any(stage.has_code for _, stage in path.stages)
                needed += len(cluster.partitions(path.source.topic)) + shuffled * has_code
        master = f"local[{max(cores, needed)}]"
    config = {
        "spark.jars": ",".join(map(str, connector_jars())),
        # An aggregation's tasks run beside those of the source, each in a slot of its own.
        _SHUFFLE: str(shuffled),
        SOURCE_EVOLUTION: "false",
    }
    return pipeline_session(specification, master, config=config)


def start_all(context: RunContext) -> dict[str, StreamingQuery]:
    """Start the real-time alerts of a pipeline, none if one of them cannot be; the query of each."""
    require_readable_key(context.spark, context.connection)
    built = {name: _built(context, name) for name in realtime_alerts(context.graph.specification)}
    require_slots(context.spark, {name: one.slots for name, one in built.items()})
    queries = {}
    for name, one in built.items():
        sink = sink_query(alert_sink(name))
        checkpoint = context.home.realtime_checkpoint(sink, context.version(sink))
        try:
            queries[name] = start_alert(
                one.records, f"{context.pipeline}.realtime-{name}", context.connection, str(checkpoint)
            )
        except PySparkException as error:
            if (reason := refusal_of_spark(error)) is not None:
                raise NotInRealTime(name, [reason]) from error
            raise
    return queries


def require_slots(spark: SparkSession, needed: Mapping[str, int]) -> None:
    """ClientError if not all tasks can run at once: those without a slot would wait for ever."""
    slots = spark.sparkContext.defaultParallelism
    total = sum(needed.values())
    if total > slots:
        each = ", ".join(f"{name} {count}" for name, count in needed.items())
        raise ClientError(
            f"real-time alerts need a task slot for each partition that they read or shuffle, {total} in all ({each}), "
            f"and the session has {slots}",
            f"Give it a master with {total} slots, or its topics fewer partitions.",
        )


def _built(context: RunContext, name: str) -> Built:
    path = _path(context.graph.specification, name)
    source = declared_source(path, context.folder)
    rows = staged_rows(source_rows(context.spark, source, context.connection), source, path.stages)
    sink = context.graph.sinks[alert_sink(name)]
    rule = alert_rule(context, sink, event_time_of(context.graph, sink.reads, rows.columns))
    records = alert_records(rows, rule)
    require_allowed(records, name, is_append=all(stage.mode == "append" for _, stage in path.stages))
    with closing(Connection.read(context.connection).new_cluster()) as cluster:
        partitions = len(cluster.partitions(source.topic))
    shuffled = int(context.spark.conf.get(_SHUFFLE) or 0) if has_state(records) else 0
    return Built(records, partitions + shuffled)


def declared_source(path: StagePath, folder: Path) -> RealtimeSource:
    """The source at the beginning of an alert's path, with its schema read."""
    source = path.source
    schema = source.schema_ or ""
    text = (folder / schema).read_text() if is_file(schema) else schema
    return RealtimeSource(
        path.source_name,
        source.topic,
        json_schema.parse(text, {}) if source.format != "text" else "",
        source.format,
        source.start,
        source.delimiter,
        source.event_time,
        source.lateness or 0,
        source.ahead,
    )


def _path(specification: PipelineSpecification, alert: str) -> StagePath:
    path = path_to(specification, alert)
    assert path is not None, "an alert without one is rejected before"
    return path
