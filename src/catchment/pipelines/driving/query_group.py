"""All queries of a run, kept running together: continuously, or level by level until all available rows are processed."""

from __future__ import annotations

import time
from collections.abc import Collection
from datetime import datetime
from functools import partial
from typing import Protocol

from pyspark.sql.streaming.query import StreamingQuery

from catchment.pipelines.declaration.specification import LakeSink
from catchment.pipelines.driving.datasets import origins, target_name
from catchment.pipelines.driving.failures import Failure
from catchment.pipelines.driving.restarting_query import RestartingQuery, RetryLimits
from catchment.pipelines.driving.status.log_end_offsets import LogEndOffsets
from catchment.pipelines.driving.status.model import QueryKind, QueryStatus
from catchment.pipelines.driving.status.progress import ProgressReader
from catchment.pipelines.graph import Graph


class Queries(Protocol):
    """The methods of a `Run` that are used."""

    def start(self, name: str) -> StreamingQuery: ...

    def has_finished(self, name: str) -> bool: ...

    def stalled_s(self, name: str) -> float: ...


class QueryGroup:
    """All queries, each restarted after a failure that may pass."""

    def __init__(
        self,
        graph: Graph,
        queries: Queries,
        *,
        is_endless: bool,
        patience: RetryLimits,
        without: Collection[str] = (),
        since: datetime | None = None,
    ) -> None:
        """`without` has the queries that another process runs; `since` is when the run started."""
        self._make_query = partial(self._query, graph, queries=queries, patience=patience, since=since)
        order = [[name for name in level if name not in without] for level in graph.order]
        group = {name: self._make_query(name) for level in order for name in level}
        levels = [[group[name] for name in level] for level in order if level]
        self._waiting: list[list[RestartingQuery]] = [] if is_endless else levels[1:]
        self._running: list[RestartingQuery] = list(group.values()) if is_endless else levels[0] if levels else []
        self.statuses = [one.status for one in group.values()]
        self._readers = [one.reader for one in group.values()]

    def check(self) -> Failure | None:
        """Check each running query once; the failure that ends the run, or None."""
        for query in self._running:
            if (failure := query.check()) is not None:
                return failure
        if all(one.is_done for one in self._running) and self._waiting:
            self._running = self._waiting.pop(0)
        return None

    def add(self, names: Collection[str]) -> None:
        """Run these queries too, which no other process runs any more; in a run without an end."""
        group = [self._make_query(name) for name in names]
        self._running += group
        self.statuses += [one.status for one in group]
        self._readers += [one.reader for one in group]

    @property
    def is_done(self) -> bool:
        """Whether all queries have processed what was available, or were stopped from outside."""
        return not self._waiting and all(one.is_done for one in self._running)

    def measure(self, ends: LogEndOffsets) -> None:
        """Set the rate of each query, and its lag by the current log end offsets."""
        known = ends.of({place for one in self._readers for place in one.places})
        for reader in self._readers:
            reader.measure(known, time.monotonic())

    @staticmethod
    def _query(
        graph: Graph, name: str, *, queries: Queries, patience: RetryLimits, since: datetime | None
    ) -> RestartingQuery:
        is_lake = isinstance(graph.target(name), LakeSink)
        source = graph.source_stages[name].source_name if name in graph.source_stages else None
        status = QueryStatus(name, _kind(graph, name), is_real_time=not is_lake, source=source)
        checks = graph.source_stages[name].checks if name in graph.source_stages else ()
        return RestartingQuery(
            status,
            partial(queries.start, name),
            has_finished=partial(queries.has_finished, name),
            stalled_s=partial(queries.stalled_s, name),
            target=target_name(graph, name),
            trigger_s=graph.trigger_ms(name) / 1000,
            checks=checks,
            reader=ProgressReader(status, origins(graph), since),
            patience=patience,
        )


def _kind(graph: Graph, name: str) -> QueryKind:
    if name in graph.source_stages or name in graph.table_quarantines:
        return "intake"
    return "step" if name in graph.processing_stages else "outlet"
