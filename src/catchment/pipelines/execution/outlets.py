"""An outlet: the rows of a stage into a store, a lake, a topic, or an alert.

Each has a query and a checkpoint of its own, so that one that is slow or away holds up none of the others. A store or a lake
takes the id of the query and the number of the batch together with the rows, and changes nothing if it has them already.
"""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame
from pyspark.sql.streaming.readwriter import DataStreamWriter

from catchment.pipelines.execution.alerting import alert_candidates
from catchment.pipelines.execution.boundaries import sink_options, to_records
from catchment.pipelines.execution.claiming import claim_lake
from catchment.pipelines.execution.handling import BatchHandler, for_each_batch
from catchment.pipelines.execution.lake_upkeep import LakeUpkeep
from catchment.pipelines.execution.row_values import encoding_options
from catchment.pipelines.execution.steps import input_rows, step_rows
from catchment.pipelines.execution.storing import StoreOutlet
from catchment.pipelines.execution.workplace import Workplace, query_id
from catchment.pipelines.graph import Outlet
from catchment.pipelines.lakes.delta import DeltaLake
from catchment.pipelines.lakes.opening import open_lake
from catchment.pipelines.row_formats import RowFormat
from catchment.pipelines.secrets import expanded
from catchment.pipelines.specification import Alert, LakeSink, StoreSink, TopicSink
from catchment.spark.spark_checkpoint import SparkCheckpoint

_MAINTAIN_EVERY_S: Final = 600.0


def outlet_rows(place: Workplace, outlet: Outlet, query: str) -> tuple[DataFrame, str]:
    """The rows that an outlet is given, and Spark's output mode for them."""
    step = place.graph.steps.get(outlet.reads)
    if step is not None and step.boundary is None:
        return step_rows(place, step, query), step.stage.mode
    # Copied from topic to topic, a record keeps its key, and with it its place among the others of that key.
    with_key = isinstance(outlet.target, TopicSink) and not _key(place, outlet, outlet.target)
    return input_rows(place, outlet.reads, query, with_key=with_key), "append"


def outlet_writer(place: Workplace, outlet: Outlet, query: str) -> DataStreamWriter:
    """A query that is ready to start but for its trigger."""
    rows, mode = outlet_rows(place, outlet, query)
    target = outlet.target
    handler: BatchHandler
    if isinstance(target, TopicSink):
        key = _key(place, outlet, target)
        if mode == "append":
            return topic_writer(place, to_records(rows, target.topic, key), query)
        handler = changelog_handler(place, target.topic, key, query)
    elif isinstance(target, Alert):
        rows, alerts = alert_candidates(place, outlet, rows)
        # What tells of silence adds rows and changes none.
        mode, handler = ("append" if target.absent_for is not None else mode), alerts.handle
    else:
        handler = _handler(place, outlet, target, rows, query)
    writer = rows.writeStream.outputMode(mode).option("checkpointLocation", place.checkpoint(query))
    return writer.foreachBatch(for_each_batch(handler))


def topic_writer(place: Workplace, records: DataFrame, query: str) -> DataStreamWriter:
    """Records into topics, each exactly once."""
    options = sink_options(place, query) | encoding_options(records)
    return records.writeStream.format("catchment").outputMode("append").options(**options)


def changelog_handler(
    place: Workplace, topic: str, key: tuple[str, ...], query: str, rows_as: RowFormat = "json"
) -> BatchHandler:
    """Changed rows into a topic, each exactly once. Spark does not let a sink in Python take them from it directly."""
    options = sink_options(place, query)

    def handle(rows: DataFrame, batch_id: int) -> bool:
        # What runs in here has a time of its own. The batch's is in its plan, and the same again when it is repeated.
        time_ms = SparkCheckpoint.at(place.checkpoint(query)).plan(batch_id).time_ms
        records = to_records(rows, topic, key, time_ms, rows_as)
        records.write.format("catchment").options(**options, **encoding_options(records)).mode("append").save()
        return True

    return handle


def _key(place: Workplace, outlet: Outlet, sink: TopicSink) -> tuple[str, ...]:
    """The columns that are the key of a topic's records."""
    return sink.key or place.graph.key_of(outlet.reads)


def _handler(place: Workplace, outlet: Outlet, sink: StoreSink | LakeSink, rows: DataFrame, query: str) -> BatchHandler:
    if isinstance(sink, StoreSink):
        return StoreOutlet(place, outlet, sink, rows.schema, query).handle
    return _lake_handler(place, sink, query)


def _lake_handler(place: Workplace, sink: LakeSink, query: str) -> BatchHandler:
    lake = open_lake(expanded(sink.lake, place.folder), kind=sink.format, partition_by=sink.partition_by)
    upkeep = LakeUpkeep(lake, _MAINTAIN_EVERY_S) if isinstance(lake, DeltaLake) else None

    is_claimed = False

    def handle(rows: DataFrame, batch_id: int) -> bool:
        nonlocal is_claimed
        if not is_claimed:
            claim_lake(place, query, lake)
            is_claimed = True
        is_new = lake.write(rows, query_id(rows), batch_id)
        if upkeep is not None:
            upkeep.keep()
        return is_new

    return handle
