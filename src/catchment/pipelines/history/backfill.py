"""Lambda: recompute the history of a stage from the lake, and show it at one moment.

A store's view takes windows that end at or before T from the batch layer and later ones from the speed layer. T is the watermark of
the query that feeds the store, as of a batch that is finished: no row that old can arrive any more, so the windows up to it are
complete in whatever holds the rows that the query has read. The new version is shown at a moment when its speed layer has read all
that the old one has, and what was shown before stays as it is, to go back to.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow
from py4j.protocol import Py4JError
from pyarrow import compute
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from catchment.client.errors import ClientError, SettingsError
from catchment.pipelines.checks.revisions import revised
from catchment.pipelines.command_context import authors_mistakes
from catchment.pipelines.declaration.addresses import expanded
from catchment.pipelines.declaration.specification import LakeSink, StoreSink
from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.failures import Failure, FailureKind, classify
from catchment.pipelines.errors import Refusal
from catchment.pipelines.execution.claiming import claim_table
from catchment.pipelines.execution.rows.boundaries import read_boundary_once
from catchment.pipelines.execution.run import Run
from catchment.pipelines.execution.run_context import RunContext
from catchment.pipelines.execution.stages import apply, table_rows_once
from catchment.pipelines.execution.store_writer import store_layout
from catchment.pipelines.graph import Graph, ProcessingStage, Sink
from catchment.pipelines.history.changes import Changes, changes_between, taken_over
from catchment.pipelines.history.switching import Report, Shown, reference_version, switch_when_caught_up
from catchment.pipelines.lakes.lake_opening import open_lake
from catchment.pipelines.naming import sink_query
from catchment.pipelines.planning import Decision, Plan, examine, keep
from catchment.pipelines.stores.definition import Definition, Layout
from catchment.pipelines.stores.store import RealTimeStore
from catchment.pipelines.stores.store_errors import StoreRefused
from catchment.pipelines.stores.store_opening import open_store
from catchment.spark.checkpoint.progress import BatchPlan, SparkCheckpoint

_ROWS_AT_ONCE: Final = 50_000
_WAIT_S: Final = 120.0
_LOOK_S: Final = 1.0
_CORRECT: Final = "Correct the stage, with try_cast and try_divide where rows may be odd, and do it again."
_AGAIN: Final = "Do it again."
_UNCHANGED: Final = "Readers of the table see what they saw before."
_ERRORS: Final[dict[ExitCode, type[ClientError]]] = {
    ExitCode.CONFIGURATION: SettingsError,
    ExitCode.REFUSED: Refusal,
}
"""All others are raised as `ClientError`, with its exit code."""


@dataclass(frozen=True)
class Backfilled:
    """What was done for one store."""

    sink: str
    table: str
    version: int
    until: datetime
    rows: int
    changes: Changes
    is_shown: bool


class RolledBack(NamedTuple):
    """What was done to one table."""

    table: str
    version: int
    """The one that is shown now."""
    left: int
    """The one that was shown: a run does not show it again."""


def backfill(
    context: RunContext,
    stage: str,
    *,
    since: datetime | None = None,
    is_dry_run: bool = False,
    report: Report = lambda _: None,
) -> Iterator[Backfilled]:
    """Recompute a stage for each store that keeps it. The pipeline may run meanwhile, with the code it had before.

    Windows that end at or before `since` are taken over as they are shown now.
    """
    processing_stage = stage_with_code(context.graph, stage)
    require_rows(context.graph, processing_stage)
    with authors_mistakes():
        Run(context).build(())
    for sink, target in store_sinks(context.graph, stage):
        yield _backfill_store(context, processing_stage, sink, target, since, is_dry_run, report)


def rollback(graph: Graph, folder: Path, stage: str) -> Iterator[RolledBack]:
    """Show the version that was shown before, in every store that keeps a stage, with what was shown until now."""
    stage_with_code(graph, stage)
    for _, sink in store_sinks(graph, stage):
        with _open(folder, sink) as store:
            _require_own_table(store, sink, graph.specification.pipeline)
            versions = store.versions()
            live = next((one.version for one in versions if one.is_live), 0)
            before = [one for one in versions if one.version < live and one.was_shown]
            if not before:
                raise ClientError(
                    f"table {sink.table} has no version before {live} that was ever shown",
                    "There is nothing to go back to.",
                )
            store.switch(before[-1].version, before[-1].until)
            yield RolledBack(sink.table, before[-1].version, live)


def keep_version(context: RunContext, done: Backfilled) -> None:
    """Have the next run of the pipeline go on with the checkpoint that a backfill has begun."""
    query = sink_query(done.sink)
    current = examine(context.spark, context.graph, context.home, context.folder).current
    keep(context.home, Plan({query: Decision("new version", done.version)}, current))


def stage_with_code(graph: Graph, stage: str) -> ProcessingStage:
    """The stage to recompute, which has code of its own."""
    if stage not in graph.processing_stages:
        known = ", ".join(sorted(graph.processing_stages)) or "none"
        raise SettingsError(f"{stage} is no stage with a function or SQL", f"Those of this pipeline are: {known}.")
    return graph.processing_stages[stage]


def require_rows(graph: Graph, processing_stage: ProcessingStage) -> None:
    """SettingsError where what a stage reads are revisions: their topic has every one of them, and the history only the last."""
    changing = revised(graph.specification.stages)
    for name in processing_stage.declaration.from_:
        if name in changing:
            raise SettingsError(
                f"the history of stage {processing_stage.name} cannot be computed from {name}, whose rows are revisions: "
                f"{changing[name]} is in mode update",
                f"Compute {processing_stage.name} from what {name} reads, or set the mode of {changing[name]} to append.",
            )


def store_sinks(graph: Graph, stage: str) -> list[tuple[Sink, StoreSink]]:
    """The sinks that keep a stage in a store."""
    found = [
        (one, one.target) for one in graph.sinks.values() if one.reads == stage and isinstance(one.target, StoreSink)
    ]
    if not found:
        raise SettingsError(f"no store keeps stage {stage}", "Add a sink of kind store, or name another stage.")
    return found


def _backfill_store(
    context: RunContext,
    processing_stage: ProcessingStage,
    sink: Sink,
    target: StoreSink,
    since: datetime | None,
    is_dry_run: bool,
    report: Report,
) -> Backfilled:
    query = sink.query
    version = context.graph.specification.version
    with _open(context.folder, target) as store:
        live = next((one for one in store.versions() if one.is_live), None)
        if live is None:
            raise ClientError(f"table {target.table} is not there yet", "Run the pipeline first.")
        if version < live.version or (version == live.version and live.until is not None):
            raise SettingsError(
                f"table {target.table} shows a recomputed version {live.version} already",
                f"Set the pipeline's version to {live.version + 1}.",
            )
        reference = reference_version(context, query, live, report)
        plan = _finished_plan(str(context.home.checkpoint(query, reference)), query)
        until = datetime.fromtimestamp(plan.watermark_ms / 1000, UTC)
        report(f"{target.table}: windows that end by {until:%Y-%m-%d %H:%M:%S} are recomputed")
        history = [_history(context, one, plan, until, report) for one in processing_stage.inputs]
        with authors_mistakes():
            result = apply(context, processing_stage, history)
        layout = store_layout(processing_stage.declaration, target, result.schema, version)
        if layout.window_end is None:
            raise SettingsError(
                f"table {target.table} has no column that says where a window ends",
                "Return one named `end`, or name it with window_end: it separates the two layers.",
            )
        with computing(f"stage {processing_stage.name} over its history"):
            rows = result.where(F.col(f"`{layout.window_end}`") <= F.lit(until)).toArrow()
        rows = _storable(store, rows, layout, report)
        before = store.definition(live.version)
        shown = store.read().select(before.schema.names)
        if since is not None:
            rows = taken_over(rows, layout, shown, before.layout, since)
        changes = changes_between(shown, before.layout, rows, layout, until)
        if is_dry_run:
            return Backfilled(sink.name, target.table, version, until, rows.num_rows, changes, is_shown=False)
        if version > reference:
            claim_table(replace(context, versions={**context.versions, query: version}), query, store)
        store.prepare(rows.schema, layout)
        store.clear_batch_layer(version)
        for begin in range(0, rows.num_rows, _ROWS_AT_ONCE):
            store.write_batch_layer(rows.slice(begin, _ROWS_AT_ONCE), version)
        if version > reference:
            with computing(f"stage {processing_stage.name} over new rows"):
                switch_when_caught_up(context, query, store, Shown(reference, version, until), report)
        else:
            store.switch(version, until)
        report(f"{target.table}: version {version} is shown")
        return Backfilled(sink.name, target.table, version, until, rows.num_rows, changes, is_shown=True)


def _require_own_table(store: RealTimeStore, sink: StoreSink, pipeline: str) -> None:
    for one in store.owners():
        if one.pipeline != pipeline:
            raise StoreRefused(
                f"table {sink.table} belongs to pipeline {one.pipeline}, whose query {one.query} writes it",
                f"Roll back pipeline {one.pipeline}, or name another table.",
            )


def _storable(store: RealTimeStore, rows: pyarrow.Table, layout: Layout, report: Report) -> pyarrow.Table:
    """Without rows that the store can never take. The stream has quarantined such rows."""
    reasons = store.unstorable(rows, Definition.of(rows.schema, layout))
    is_storable = compute.is_null(reasons)
    if count := len(reasons) - reasons.null_count:
        first = reasons.filter(compute.invert(is_storable))[0].as_py()
        report(f"{layout.table}: rows that the store cannot take are left out, {count:,} of them: {first}")
    return rows.filter(is_storable)


def _finished_plan(checkpoint: str, query: str) -> BatchPlan:
    notes = SparkCheckpoint.at(checkpoint)
    newest = notes.newest_finished()
    if newest is None:
        raise ClientError(f"the query {query} has not finished a batch yet", "Run the pipeline first.")
    plan = notes.plan(newest)
    if plan.watermark_ms <= 0:
        raise ClientError(f"the query {query} has no watermark yet", "No window is complete: wait for later events.")
    return plan


def _history(context: RunContext, name: str, plan: BatchPlan, until: datetime, report: Report) -> DataFrame:
    """All rows up to a moment of what a stage reads: from a lake if one keeps them, else from their topic."""
    if name in context.graph.tables:
        return table_rows_once(context, name)
    if name in context.graph.sources:
        raise SettingsError(f"the stage reads {name}, which has no event time", "Give it event_time and lateness.")
    boundary = context.graph.boundary(name)
    assert boundary is not None, "what a processing stage reads has a topic"
    ends = _ends_of(plan, boundary.topic)
    lake = next(
        (one for one in context.graph.sinks.values() if one.reads == name and isinstance(one.target, LakeSink)), None
    )
    if lake is None:
        rows = read_boundary_once(context, name, {boundary.topic: ends})
    else:
        assert isinstance(lake.target, LakeSink), "it was chosen so"
        _wait_for_lake(context, lake, boundary.topic, ends, report)
        kept = open_lake(
            expanded(lake.target.lake, context.folder), kind=lake.target.format, partition_by=lake.target.partition_by
        )
        rows = kept.read_spark(context.spark).select(*context.schemas[name].fieldNames())
    return rows if boundary.event_time is None else rows.where(F.col(boundary.event_time) <= F.lit(until))


def _wait_for_lake(context: RunContext, lake: Sink, topic: str, ends: Mapping[str, int], report: Report) -> None:
    """Until the lake has read as far as the store."""
    query = lake.query
    notes = SparkCheckpoint.at(context.checkpoint(query))
    deadline_s = time.monotonic() + _WAIT_S
    while True:
        newest = notes.newest_finished()
        reached = {} if newest is None else _ends_of(notes.plan(newest), topic)
        if all(reached.get(partition, 0) >= end for partition, end in ends.items()):
            return
        if time.monotonic() > deadline_s:
            raise ClientError(
                f"the lake {lake.name} is behind the store: it has read {topic} up to {reached} of {ends}",
                "Run the pipeline until it has caught up.",
            )
        report(f"waiting for the lake {lake.name}")
        time.sleep(_LOOK_S)


def _ends_of(plan: BatchPlan, topic: str) -> dict[str, int]:
    """How far a batch has read a topic."""
    for source in plan.ends:
        if isinstance(source, dict) and topic in source:
            return {str(partition): int(offset) for partition, offset in source[topic].items()}
    return {}


def _open(folder: Path, sink: StoreSink) -> RealTimeStore:
    return open_store(expanded(sink.store, folder), sink.table, sink.ttl)


@contextmanager
def computing(what: str) -> Iterator[None]:
    """Around what Spark computes: its errors are those of the stage, of its rows, or of what it reads and writes."""
    try:
        yield
    except (PySparkException, Py4JError) as error:
        raise _raised(what, classify(error)) from error


def _raised(what: str, failure: Failure) -> ClientError:
    advice = _CORRECT if failure.kind is FailureKind.PERMANENT else _AGAIN
    error = _ERRORS.get(failure.exit_code, ClientError)
    return error(f"{what} fails: {failure.message.rstrip('.')}", f"{advice} {_UNCHANGED}")
