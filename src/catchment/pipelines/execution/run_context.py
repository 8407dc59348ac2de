"""What every query of a running pipeline needs: the session, the brokers, and where its checkpoints are."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from catchment.pipelines.alerts.writer import AlertCounts
from catchment.pipelines.declaration.specification import NEW_ROWS, WrittenRows
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home


class StoreCalls:
    """Calls to stores that are under way, to distinguish a store that does not answer from a query that computes.

    Each query makes one call at a time, on its own thread.
    """

    def __init__(self) -> None:
        self._since_s: dict[str, float] = {}

    @contextmanager
    def under_way(self, query: str) -> Iterator[None]:
        """Around a call."""
        self._since_s[query] = time.monotonic()
        try:
            yield
        finally:
            del self._since_s[query]

    def lasts_s(self, query: str) -> float:
        """How long the query's call has been under way; 0 if there is none."""
        since_s = self._since_s.get(query)
        return 0.0 if since_s is None else time.monotonic() - since_s


_QUERY_ID: Final = "sql.streaming.queryId"


@dataclass(frozen=True)
class RunContext:
    """The context of the queries of one run."""

    spark: SparkSession
    graph: Graph
    servers: str
    kafka: Mapping[str, str]
    home: Home
    folder: Path
    """Paths in the pipeline's file are relative to it."""
    versions: Mapping[str, int] = field(default_factory=dict)
    """The version of each query that has another than the first."""
    shows_new_versions: bool = True
    """Whether a table's new version is shown as soon as it has caught up."""
    schemas: dict[str, StructType] = field(default_factory=dict)
    """The columns of each boundary, known once the query that writes it is built."""
    rows: Mapping[str, WrittenRows] = field(default_factory=dict)
    """The formats of topics that an earlier run has written, and new queries continue."""
    store_calls: StoreCalls = field(default_factory=StoreCalls)
    alert_counts: dict[str, AlertCounts] = field(default_factory=dict)
    """Outcomes of the candidates of each alert, known once its query is built."""
    at_end: ExitStack = field(default_factory=ExitStack)
    """Resources of sinks, closed when no query runs any more."""

    @property
    def pipeline(self) -> str:
        return self.graph.specification.pipeline

    @property
    def connection(self) -> dict[str, str]:
        """The options by which sources and sinks reach the brokers."""
        return {"kafka.bootstrap.servers": self.servers} | {f"kafka.{name}": one for name, one in self.kafka.items()}

    def written_rows(self, name: str) -> WrittenRows:
        """The format of a boundary's rows in its topic."""
        boundary = self.graph.boundary(name)
        asked = boundary.rows_as if boundary is not None else None
        return self.rows.get(name) or WrittenRows(asked or NEW_ROWS)

    def version(self, query: str) -> int:
        return self.versions.get(query, 1)

    def checkpoint(self, query: str) -> str:
        """The checkpoint location of a query."""
        return str(self.home.checkpoint(query, self.version(query)))


def query_id(rows: DataFrame) -> str:
    """The id of the streaming query that a batch belongs to: another one if its checkpoint is deleted."""
    found = rows.sparkSession.sparkContext.getLocalProperty(_QUERY_ID)
    assert found is not None, "a batch is handled on its query's own thread"
    return found
