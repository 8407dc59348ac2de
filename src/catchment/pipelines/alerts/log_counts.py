"""Outcomes of alerts that another process decides, counted from the log that they are written to.

Real-time mode decides in Spark tasks, in a process of its own, and reports once in five minutes. The log has every alert at once: a
record with a new id has fired, one with a known id is a repetition.

Gaps
    Ids are known of the last 10,000 records of the log before the driver started, and of as many of each alert since.
    Rows without an event time give no record, so they are not counted.
    Partitions that are added to the log are seen at the next start.
"""

from __future__ import annotations

import logging
from collections.abc import Collection
from contextlib import closing, suppress
from threading import Event, Lock, Thread
from types import TracebackType
from typing import Final, Self

from pyarrow import compute

from catchment.client.cluster import Cluster
from catchment.client.errors import ClientError
from catchment.client.offsets import EARLIEST, LATEST
from catchment.client.reader import OffsetOutOfRange, Read, Reader, Span
from catchment.client.topic_metadata import TopicPartition
from catchment.pipelines.alerts.log import REMEMBERED_IDS, Remembered, ids_of
from catchment.pipelines.alerts.rule import log_topic
from catchment.spark.options.connection import Connection

_log: Final = logging.getLogger("catchment.pipelines")
_POLL_S: Final = 0.5
_BROKER_PAUSE_S: Final = 1.0
_FIRED: Final = "fired"
_REPEATED: Final = "repeated"


class LogCounts:
    """Counts on a thread of its own, within a `with` block. Open it before the alerts can fire, so that none is missed."""

    def __init__(self, connection: Connection, pipeline: str, alerts: Collection[str]) -> None:
        self._connection = connection
        self._topic = log_topic(pipeline)
        self._known: dict[str, Remembered[None]] = {alert: Remembered() for alert in alerts}
        self._lock = Lock()
        self._counts = {alert: {_FIRED: 0, _REPEATED: 0} for alert in alerts}
        self._begun: dict[TopicPartition, int] = {}
        """The log end offsets when counting began: earlier records are known, and not counted."""
        self._positions: dict[TopicPartition, int] = {}
        self._is_over = Event()
        self._thread = Thread(target=self._work, name="counts of alerts", daemon=True)

    def __enter__(self) -> Self:
        if self._known:
            with suppress(ClientError), closing(self._connection.new_cluster()) as cluster:
                # Where the brokers are away nothing fires, and the thread begins when they are back.
                self._begin(cluster)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Stop counting, without waiting for a call to a broker that is away: the thread ends with the process."""
        self._is_over.set()

    @property
    def outcomes(self) -> dict[str, dict[str, int]]:
        """How often each alert has fired, and was repeated, since counting began."""
        with self._lock:
            return {alert: dict(counts) for alert, counts in self._counts.items()}

    def _begin(self, cluster: Cluster) -> None:
        places = [(self._topic, number) for number in cluster.partitions(self._topic, create=True)]
        starts, ends = cluster.list_offsets(places, EARLIEST), cluster.list_offsets(places, LATEST)
        longest = REMEMBERED_IDS // len(places)
        self._begun = {place: ends[place].offset for place in places}
        self._positions = {place: max(starts[place].offset, end - longest) for place, end in self._begun.items()}

    def _work(self) -> None:
        while not self._is_over.is_set():
            try:
                with closing(self._connection.new_cluster()) as cluster:
                    if not self._positions:
                        self._begin(cluster)
                    self._follow(cluster)
            except OffsetOutOfRange as gone:
                _log.warning("alerts of topic %s are not counted: %s", self._topic, gone)
                self._positions[gone.topic, gone.partition] = min(gone.log_start, gone.log_end)
            except ClientError as error:
                _log.debug("the outcomes of alerts are not known: %s", error)
                self._is_over.wait(_BROKER_PAUSE_S)

    def _follow(self, cluster: Cluster) -> None:
        spans = [Span(*place, offset) for place, offset in self._positions.items()]
        with Reader(cluster, spans, columns=["key", "headers", "offset"]) as reader:
            while not self._is_over.is_set():
                for read in reader.poll(_POLL_S):
                    self._count(read)
                    self._positions[read.topic, read.partition] = read.next_offset

    def _count(self, read: Read) -> None:
        is_new = compute.greater_equal(read.batch.column("offset"), self._begun[read.topic, read.partition])
        before, since = read.batch.filter(compute.invert(is_new)), read.batch.filter(is_new)
        for alert, known in self._known.items():
            for one in ids_of(before, alert):
                known[one] = None
            for one in ids_of(since, alert):
                outcome = _REPEATED if one in known else _FIRED
                known[one] = None
                with self._lock:
                    self._counts[alert][outcome] += 1
