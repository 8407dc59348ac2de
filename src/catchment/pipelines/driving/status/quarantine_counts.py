"""How many records of this run were rejected or late, counted from the quarantine and late topics, which have each of them once.

Gaps
    Partitions that are added to these topics are seen at the next start.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing, suppress
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Final, Self

import pyarrow
from pyarrow import compute

from catchment.client.cluster import Cluster
from catchment.client.errors import ClientError
from catchment.client.offsets import LATEST
from catchment.client.reader import OffsetOutOfRange, Reader, Span
from catchment.client.topic_metadata import TopicPartition
from catchment.pipelines.naming import sink_query
from catchment.spark.options.connection import Connection

_logger = logging.getLogger(__name__)

_STAGE: Final = "catchment.stage"
_SINK: Final = "catchment.sink"
_POLL_S: Final = 0.5
_BROKER_PAUSE_S: Final = 1.0
_STEP_S: Final = 0.02


class QuarantineCounts:
    """Counts on its own thread, within a `with` block. Open it before the queries start, so that no record is missed."""

    def __init__(self, connection: Connection, topics: Mapping[str, str]) -> None:
        """`topics` has the topic of each kind of records: `rejected`, `late`."""
        self._connection = connection
        self._kinds = {topic: kind for kind, topic in topics.items()}
        self._lock = Lock()
        self._counts: dict[str, Counter[str]] = {kind: Counter() for kind in topics}
        self._positions: dict[TopicPartition, int] = {}
        self._is_over = Event()
        self._thread = Thread(target=self._work, name="quarantine counts", daemon=True)

    def __enter__(self) -> Self:
        if self._kinds:
            with suppress(ClientError), closing(self._connection.new_cluster()) as cluster:
                # While the brokers are away nothing is written; the thread begins when they are back.
                self._positions = self._ends(cluster)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # The thread may wait for a broker that is away: it ends with the process.
        self._is_over.set()

    def of(self, query: str) -> dict[str, int]:
        """How many records of each kind a query has written since counting began."""
        with self._lock:
            return {kind: counts[query] for kind, counts in self._counts.items()}

    def catch_up(self, timeout_s: float) -> None:
        """Wait until all records that are in the topics now are counted, or the time is over."""
        if not self._kinds:
            return
        deadline = time.monotonic() + timeout_s
        with suppress(ClientError), closing(self._connection.new_cluster()) as cluster:
            ends = self._ends(cluster)
            while time.monotonic() < deadline:
                with self._lock:
                    if all(self._positions.get(place, 0) >= end for place, end in ends.items()):
                        return
                self._is_over.wait(_STEP_S)

    def _ends(self, cluster: Cluster) -> dict[TopicPartition, int]:
        places = [(topic, number) for topic in self._kinds for number in cluster.partitions(topic)]
        return {place: at.offset for place, at in cluster.list_offsets(places, LATEST, read_committed=True).items()}

    def _work(self) -> None:
        while not self._is_over.is_set():
            try:
                with closing(self._connection.new_cluster()) as cluster:
                    self._positions = self._positions or self._ends(cluster)
                    self._follow(cluster)
            except OffsetOutOfRange as gone:
                self._positions[gone.topic, gone.partition] = min(gone.log_start, gone.log_end)
            except ClientError as error:
                _logger.debug("quarantined records are not counted: %s", error)
                self._is_over.wait(_BROKER_PAUSE_S)

    def _follow(self, cluster: Cluster) -> None:
        spans = [Span(*place, offset) for place, offset in self._positions.items()]
        with Reader(cluster, spans, columns=["headers"]) as reader:
            while not self._is_over.is_set():
                for read in reader.poll(_POLL_S):
                    queries = Counter(queries_in(read.batch.column("headers")))
                    with self._lock:
                        self._counts[self._kinds[read.topic]].update(queries)
                        self._positions[read.topic, read.partition] = read.next_offset


def queries_in(headers: pyarrow.Array) -> list[str]:
    """The query that has written each record: that of a sink, or the source stage."""
    stages, sinks = _values(headers, _STAGE), _values(headers, _SINK)
    return [sink_query(sinks[record]) if record in sinks else stage for record, stage in stages.items()]


def _values(headers: pyarrow.Array, name: str) -> dict[int, str]:
    """A header of each record that has it, by the record's number. Our header comes after any that the record came with."""
    flat = compute.list_flatten(headers)
    is_named = compute.equal(compute.struct_field(flat, "key"), name)
    records = compute.list_parent_indices(headers).filter(is_named).to_pylist()
    values = compute.struct_field(flat, "value").filter(is_named).to_pylist()
    return {record: (one or b"").decode(errors="replace") for record, one in zip(records, values, strict=True)}
