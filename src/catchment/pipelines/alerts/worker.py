"""A delivery worker: it reads the alerts for one channel from the log in order, delivers them or gives them up, and commits its position.

Each webhook and each mail address of an alert has a worker with its own thread and position: a receiver that does not answer
delays no other. The position is committed to a consumer group that is named after the alert, so
that a changed address goes on where the one before it stopped.

Behaviour
    A new worker begins with alerts that fire after it is opened. Within a partition of the log, and so for a key, alerts are
    delivered in order. An undeliverable alert goes to the topic of undelivered alerts with the reason. A record whose id was delivered or
    given up before is skipped: real-time mode writes an alert again for each event that still satisfies it.
Gaps
    Ids are known of the last 10,000 records of the log before the position where the worker began, and of as many since.
    Partitions that are added to the log are seen at the next start.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from threading import Event, Lock, Thread
from typing import Any, Final

import pyarrow

from catchment.client.cluster import Cluster
from catchment.client.errors import ClientError
from catchment.client.offsets import EARLIEST, LATEST
from catchment.client.reader import OffsetOutOfRange, Reader, Span
from catchment.client.topic_metadata import TopicPartition
from catchment.pipelines.alerts.channels import Channel
from catchment.pipelines.alerts.delivery import Delivery, DeliveryLimits, DeliveryStatus
from catchment.pipelines.alerts.log import alert_of, ids_of
from catchment.pipelines.alerts.rule import log_topic
from catchment.spark.options.connection import Connection

_log: Final = logging.getLogger("catchment.pipelines")
_POLL_S: Final = 0.5
_COMMIT_EVERY_S: Final = 1.0
_BROKER_PAUSE_S: Final = 1.0


class DeliveryWorker:
    """Delivers one alert to one channel. Call `open` before alerts can fire, so that none is missed."""

    def __init__(
        self,
        connection: Connection,
        pipeline: str,
        alert: str,
        name: str,
        channel: Channel,
        limits: DeliveryLimits | None = None,
    ) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._alert = alert
        self._group = f"{pipeline}.alerts.{alert}.{name}"
        self._stopping = Event()
        self._delivery = Delivery(
            connection, pipeline, self._group, channel, limits or DeliveryLimits(), self._stopping
        )
        self._has_read_ids = False
        self._lock = Lock()
        self._reached: dict[TopicPartition, int] = {}
        self._thread = Thread(target=self._work, name=f"catchment-alerts-{alert}-{name}", daemon=True)

    @property
    def status(self) -> DeliveryStatus:
        return self._delivery.status

    def has_reached(self, ends: Mapping[TopicPartition, int]) -> bool:
        """Whether everything before these offsets of the log has been delivered or given up."""
        with self._lock:
            return all(self._reached.get(place, -1) >= end for place, end in ends.items())

    def open(self) -> None:
        """Commit the end of the log as the position if there is none, and start the thread."""
        with closing(self._connection.new_cluster()) as cluster:
            self._positions(cluster)
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Stop after the current attempt; the other alerts are delivered after the next start."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(timeout_s)

    def _work(self) -> None:
        while not self._stopping.is_set():
            try:
                with closing(self._connection.new_cluster()) as cluster:
                    self._follow(cluster)
            except OffsetOutOfRange as gone:
                self._skip(gone)
            except ClientError as error:
                self._delivery.trouble(f"the log cannot be read: {error}")
                self._stopping.wait(_BROKER_PAUSE_S)

    def _follow(self, cluster: Cluster) -> None:
        positions = self._positions(cluster)
        self._read_delivered_ids(cluster, positions)
        spans = [Span(*place, offset) for place, offset in positions.items()]
        committed_at_s = time.monotonic()
        with Reader(cluster, spans, columns=["key", "value", "headers", "offset"]) as reader:
            self._delivery.trouble(None)
            while not self._stopping.is_set():
                for read in reader.poll(_POLL_S):
                    for offset, alert in self._alerts(read.batch):
                        if self._stopping.is_set() or not self._delivery.deliver(alert):
                            cluster.commit(self._group, positions)
                            return
                        positions[read.topic, read.partition] = offset + 1
                        if time.monotonic() - committed_at_s > _COMMIT_EVERY_S:
                            cluster.commit(self._group, positions)
                            committed_at_s = time.monotonic()
                    positions[read.topic, read.partition] = read.next_offset
                    cluster.commit(self._group, positions)
                    committed_at_s = time.monotonic()
                with self._lock:
                    self._reached = reader.positions

    def _read_delivered_ids(self, cluster: Cluster, positions: Mapping[TopicPartition, int]) -> None:
        """Read the ids of alerts that were delivered before the driver started, as many as are remembered: they may come again."""
        if self._has_read_ids:
            return
        longest = self._delivery.remembered // len(positions)
        starts = cluster.list_offsets(list(positions), EARLIEST)
        spans = [Span(*place, max(starts[place].offset, end - longest), end) for place, end in positions.items()]
        with Reader(cluster, spans, columns=["key", "headers"]) as reader:
            try:
                while not reader.is_finished and not self._stopping.is_set():
                    for read in reader.poll(_POLL_S):
                        self._delivery.remember(ids_of(read.batch, self._alert))
            except OffsetOutOfRange as gone:
                # These records lie before the position: missing some does no harm.
                _log.warning("%s has fewer ids of delivered alerts: %s", self._group, gone)
        self._has_read_ids = True

    def _positions(self, cluster: Cluster) -> dict[TopicPartition, int]:
        """The committed positions; for a new worker, the end of the log, which is committed so that a restart begins there too."""
        topic = log_topic(self._pipeline)
        places = [(topic, number) for number in cluster.partitions(topic, create=True)]
        known = {place: position.offset for place, position in cluster.committed(self._group, places).items()}
        if new := [place for place in places if place not in known]:
            ends = {place: found.offset for place, found in cluster.list_offsets(new, LATEST).items()}
            cluster.commit(self._group, ends)
            known |= ends
        return known

    def _alerts(self, batch: pyarrow.RecordBatch) -> Iterator[tuple[int, dict[str, Any]]]:
        for record in batch.to_pylist():
            if alert_of(record["key"]) == self._alert:
                yield record["offset"], record

    def _skip(self, gone: OffsetOutOfRange) -> None:
        """Go on with the oldest alert that is left."""
        lost = max(0, gone.log_start - gone.offset)
        _log.error("%s: %s", self._group, gone)
        try:
            with closing(self._connection.new_cluster()) as cluster:
                cluster.commit(self._group, {(gone.topic, gone.partition): min(gone.log_start, gone.log_end)})
            self._delivery.trouble(str(gone))
            self._delivery.count(lost=lost)
        except ClientError as error:
            self._delivery.trouble(str(error))
            self._stopping.wait(_BROKER_PAUSE_S)
