"""One listener and its alerts: read from the log in order, told at least once, given up after a bounded time.

Each webhook and each address for mail of an alert is a lane with a thread, a position in the log and a fate of its own: one
that does not answer holds up nobody else. The position is committed to a consumer group that is named after the alert, so
that a changed address goes on where the one before it stood.

Behaviour
    A new lane begins with alerts that fire after it is opened. Within a partition of the log, and so for a key, alerts are
    told in order. What cannot be told goes to the topic of undelivered alerts with the reason.
Gaps
    Partitions that are added to the log are seen at the next start.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Event, Lock, Thread
from typing import Any, Final, NamedTuple

import pyarrow

from catchment.client.cluster import Cluster
from catchment.client.columns import HEADER_TYPE
from catchment.client.errors import ClientError
from catchment.client.offsets import LATEST
from catchment.client.producer import Producer
from catchment.client.reader import OffsetOutOfRange, Reader, Span
from catchment.client.topic_metadata import Place
from catchment.pipelines.alerts.log import alert_of
from catchment.pipelines.alerts.rule import log_topic, undelivered_topic
from catchment.pipelines.alerts.telling import Listener, Notification, TellingFailed, TellingRefused
from catchment.pipelines.brokers import LARGEST_RECORD_BYTES
from catchment.spark.connection import Connection

_log: Final = logging.getLogger("catchment.pipelines")
_POLL_S: Final = 0.5
_COMMIT_EVERY_S: Final = 1.0
_BROKER_PAUSE_S: Final = 1.0


class DeliveryLimits(NamedTuple):
    """How often a listener is tried before an alert is given up, and with which pauses, each twice the one before."""

    attempts: int = 8
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """What a lane has done since it was opened, and what is in its way."""

    name: str
    delivered: int = 0
    given_up: int = 0
    lost: int = 0
    """Alerts that retention removed from the log before they could be told."""
    trouble: str | None = None


class Lane:
    """Tells one listener of one alert. `open` before alerts can fire, so that none comes too early for it."""

    def __init__(
        self,
        connection: Connection,
        pipeline: str,
        alert: str,
        name: str,
        listener: Listener,
        limits: DeliveryLimits | None = None,
    ) -> None:
        self._connection = connection
        self._pipeline = pipeline
        self._alert = alert
        self._group = f"{pipeline}.alerts.{alert}.{name}"
        self._listener = listener
        self._limits = limits or DeliveryLimits()
        self._status = LaneStatus(f"{alert}.{name}")
        self._lock = Lock()
        self._stopping = Event()
        self._thread = Thread(target=self._work, name=f"catchment-alerts-{alert}-{name}", daemon=True)

    @property
    def status(self) -> LaneStatus:
        with self._lock:
            return self._status

    def open(self) -> None:
        """Take a place at the end of the log if this is the first time, and begin."""
        with closing(self._connection.new_cluster()) as cluster:
            self._positions(cluster)
        self._thread.start()

    def close(self, timeout_s: float) -> None:
        """Stop after the attempt that is being made; what was not told is told next time."""
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
                self._note(trouble=f"the log cannot be read: {error}")
                self._stopping.wait(_BROKER_PAUSE_S)

    def _follow(self, cluster: Cluster) -> None:
        positions = self._positions(cluster)
        spans = [Span(*place, offset) for place, offset in positions.items()]
        committed_at_s = time.monotonic()
        with Reader(cluster, spans, columns=["key", "value", "headers", "offset"]) as reader:
            self._note(trouble=None)
            while not self._stopping.is_set():
                for read in reader.poll(_POLL_S):
                    for offset, alert in self._alerts(read.batch):
                        if self._stopping.is_set() or not self._deliver(alert):
                            cluster.commit(self._group, positions)
                            return
                        positions[read.topic, read.partition] = offset + 1
                        if time.monotonic() - committed_at_s > _COMMIT_EVERY_S:
                            cluster.commit(self._group, positions)
                            committed_at_s = time.monotonic()
                    positions[read.topic, read.partition] = read.next_offset
                    cluster.commit(self._group, positions)
                    committed_at_s = time.monotonic()

    def _positions(self, cluster: Cluster) -> dict[Place, int]:
        """Where the lane stands; where it is new, the end of the log, from now on and after a restart too."""
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

    def _deliver(self, record: dict[str, Any]) -> bool:
        """Tell of one alert or give it up; False if the lane is being closed meanwhile."""
        try:
            body = json.loads(record["value"])
            alert = Notification(body["id"], body["message"], record["value"])
        except (ValueError, KeyError, TypeError) as error:
            return self._give_up(record, f"somebody else wrote to the log: {error!r}", attempts=0)
        pause_s = self._limits.first_pause_s
        for attempt in range(1, self._limits.attempts + 1):
            try:
                self._listener.tell(alert)
            except TellingRefused as error:
                return self._give_up(record, str(error), attempt)
            except TellingFailed as error:
                self._note(trouble=str(error))
                if attempt == self._limits.attempts:
                    return self._give_up(record, str(error), attempt)
                wanted_s = max(pause_s, error.retry_after_s or 0.0)
                if self._stopping.wait(min(wanted_s, self._limits.longest_pause_s)):
                    return False
                pause_s *= 2
            except Exception as error:  # Whatever it is, it must not end the lane.
                return self._give_up(record, f"unexpected {error!r}", attempt)
            else:
                self._note(trouble=None, delivered=1)
                return True
        raise AssertionError("the last attempt returns")

    def _give_up(self, record: dict[str, Any], reason: str, attempts: int) -> bool:
        """Set an alert aside, for as long as that takes: it is not told again meanwhile. False if the lane is being closed."""
        _log.error("alert %s of pipeline %s is given up for %s: %s", self._alert, self._pipeline, self._group, reason)
        added = {"listener": self._group, "error": reason, "attempts": str(attempts)}
        headers = [*(record["headers"] or ()), *({"key": key, "value": text.encode()} for key, text in added.items())]
        rows = pyarrow.table(
            {
                "key": pyarrow.array([record["key"]], pyarrow.binary()),
                "value": pyarrow.array([record["value"]], pyarrow.binary()),
                "headers": pyarrow.array([headers], pyarrow.list_(HEADER_TYPE)),
            }
        )
        while True:
            try:
                self._set_aside(rows)
            except ClientError as error:
                self._note(trouble=f"an alert that was given up ({reason}) cannot be set aside: {error}")
                if self._stopping.wait(_BROKER_PAUSE_S):
                    return False
            else:
                self._note(trouble=reason, given_up=1)
                return True

    def _set_aside(self, rows: pyarrow.Table) -> None:
        with (
            closing(self._connection.new_cluster()) as cluster,
            Producer(cluster, max_record_bytes=LARGEST_RECORD_BYTES) as producer,
        ):
            producer.write(undelivered_topic(self._pipeline), rows)

    def _skip(self, gone: OffsetOutOfRange) -> None:
        """Go on with the oldest alert that is left."""
        lost = max(0, gone.log_start - gone.offset)
        _log.error("%s: %s", self._group, gone)
        try:
            with closing(self._connection.new_cluster()) as cluster:
                cluster.commit(self._group, {(gone.topic, gone.partition): min(gone.log_start, gone.log_end)})
            self._note(trouble=str(gone), lost=lost)
        except ClientError as error:
            self._note(trouble=str(error))
            self._stopping.wait(_BROKER_PAUSE_S)

    def _note(self, *, trouble: str | None, delivered: int = 0, given_up: int = 0, lost: int = 0) -> None:
        with self._lock:
            known = self._status
            self._status = replace(
                known,
                trouble=trouble,
                delivered=known.delivered + delivered,
                given_up=known.given_up + given_up,
                lost=known.lost + lost,
            )
