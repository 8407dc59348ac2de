"""The rows of a stage into a real-time store, batch by batch.

A new version of a table is written beside the one that readers see. It is shown once it has caught up with the events that were there
when it was started, unless a backfill has shown it before. A version that was rolled back is not shown again.

A row that the store can never take, such as one with a NULL in its key, is quarantined and stops nothing.

Expired rows are deleted every minute, also while no rows come.
"""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Final

import pyarrow
from pyarrow import compute
from pyspark.sql import DataFrame
from pyspark.sql.types import StructType, TimestampType

from catchment.pipelines.declaration.addresses import expanded
from catchment.pipelines.declaration.specification import Stage, StoreSink
from catchment.pipelines.execution.catching_up import CatchingUp
from catchment.pipelines.execution.claiming import claim_table
from catchment.pipelines.execution.periodic_task import PeriodicTask
from catchment.pipelines.execution.quarantine import UnstorableRows
from catchment.pipelines.execution.run_context import RunContext, query_id
from catchment.pipelines.graph import Sink
from catchment.pipelines.stores.definition import Definition, Layout
from catchment.pipelines.stores.store_errors import StoreError
from catchment.pipelines.stores.store_opening import open_store

_logger = logging.getLogger(__name__)

_WINDOW_END: Final = "end"
_EXPIRE_EVERY_S: Final = 60.0


def store_layout(stage: Stage | None, sink: StoreSink, schema: StructType, version: int) -> Layout:
    """The layout of a store's table for the rows of a stage."""
    moments = [one.name for one in schema if isinstance(one.dataType, TimestampType)]
    return Layout(
        table=sink.table,
        key=sink.key or (stage.key if stage else ()),
        version=version,
        ttl_ms=sink.ttl,
        window_end=sink.window_end or (_WINDOW_END if _WINDOW_END in moments else None),
    )


class StoreWriter:
    """Writes one table of one store, for one query."""

    def __init__(self, context: RunContext, sink: Sink, target: StoreSink, schema: StructType, query: str) -> None:
        self._context = context
        self._query = query
        self._version = context.version(query)
        stage = context.graph.specification.stages.get(sink.reads)
        self._layout = store_layout(stage, target, schema, self._version)
        self._store = open_store(expanded(target.store, context.folder), target.table, target.ttl)
        self._unstorable = UnstorableRows(context, sink, target, self._layout.key)
        self._definition: Definition | None = None
        """The definition of the table, once it is prepared."""
        # The first version is shown from the start.
        is_later = context.shows_new_versions and self._version > 1
        self._catching_up = CatchingUp(context, query) if is_later else None
        self._expiry = (
            None if target.ttl is None else PeriodicTask(f"ttl of {target.table}", self._expire, _EXPIRE_EVERY_S)
        )
        context.at_end.callback(self._close)

    def handle(self, rows: DataFrame, batch_id: int) -> bool:
        """Write a batch to the store. All rows are computed, also of a batch that the store already has."""
        arrow = rows.toArrow()
        with self._context.store_calls.under_way(self._query):
            definition = self._definition = self._definition or self._prepared(arrow.schema)
            reasons = self._store.unstorable(arrow, definition)
        if reasons.null_count < len(reasons):
            # Before the rest is stored: once the batch's number is in the store, no row of it may be missing.
            is_storable = compute.is_null(reasons)
            is_unstorable = compute.invert(is_storable)
            self._unstorable.quarantine(rows, arrow.filter(is_unstorable), reasons.filter(is_unstorable), batch_id)
            arrow = arrow.filter(is_storable)
        with self._context.store_calls.under_way(self._query):
            self._store.write(arrow, query_id(rows), batch_id, self._version)
        if self._catching_up is not None and self._catching_up.is_done(batch_id):
            with self._context.store_calls.under_way(self._query):
                self._store.show_new(self._version)
            self._catching_up = None
        return True

    def _prepared(self, schema: pyarrow.Schema) -> Definition:
        claim_table(self._context, self._query, self._store)
        # A column that Spark derives as not nullable today may be nullable after a change of the stage.
        self._store.prepare(pyarrow.schema([one.with_nullable(True) for one in schema]), self._layout)
        return self._store.definition(self._version)

    def _expire(self) -> None:
        try:
            self._store.expire(datetime.now(UTC))
        except StoreError as error:
            # They are deleted a minute later; the query reports a store that is away.
            _logger.info("expired rows of table %s are not deleted: %s", self._layout.table, error)

    def _close(self) -> None:
        # A call without an answer holds the connection, and closing would wait for it: it ends with the process.
        has_ended = self._expiry is None or self._expiry.close()
        if has_ended and not self._context.store_calls.lasts_s(self._query):
            self._store.close()
