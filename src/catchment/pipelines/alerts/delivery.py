"""Delivery of one alert from the log to a channel: once for each id, retried within limits, else written to the undelivered topic."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable
from contextlib import closing
from dataclasses import dataclass, replace
from threading import Event, Lock
from typing import Any, Final, NamedTuple

import pyarrow

from catchment.client.columns.schema import HEADER_TYPE
from catchment.client.errors import ClientError
from catchment.client.producer import Producer
from catchment.pipelines.alerts.channels import Channel, DeliveryFailed, DeliveryRejected, Notification
from catchment.pipelines.alerts.log import Remembered
from catchment.pipelines.alerts.rule import undelivered_topic
from catchment.pipelines.declaration.addresses import LARGEST_RECORD_BYTES
from catchment.spark.options.connection import Connection

_log: Final = logging.getLogger("catchment.pipelines")
_BROKER_PAUSE_S: Final = 1.0


class DeliveryLimits(NamedTuple):
    """How many attempts are made before an alert is given up, and the pauses between them, each twice the one before."""

    attempts: int = 8
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0


@dataclass(frozen=True, slots=True)
class DeliveryStatus:
    """Outcomes of the alerts for a channel since the driver started, and the current problem."""

    name: str
    delivered: int = 0
    repeated: int = 0
    """Records of alerts that had already been delivered or given up."""
    given_up: int = 0
    lost: int = 0
    """Records that retention removed from the log before they were delivered."""
    trouble: str | None = None

    @property
    def outcomes(self) -> dict[str, int]:
        return {
            "delivered": self.delivered,
            "repeated": self.repeated,
            "given_up": self.given_up,
            "lost": self.lost,
        }


class Delivery:
    """Delivers to one channel. Used by one thread; any thread may read the status."""

    def __init__(
        self,
        connection: Connection,
        pipeline: str,
        group: str,
        channel: Channel,
        limits: DeliveryLimits,
        stopping: Event,
    ) -> None:
        """`stopping` cuts pauses short; an alert that is under way then is not counted as delivered."""
        self._connection = connection
        self._topic = undelivered_topic(pipeline)
        self._group = group
        self._channel = channel
        self._limits = limits
        self._stopping = stopping
        self._settled: Remembered[None] = Remembered()
        self._lock = Lock()
        self._status = DeliveryStatus(group.removeprefix(f"{pipeline}.alerts."))

    @property
    def status(self) -> DeliveryStatus:
        with self._lock:
            return self._status

    @property
    def remembered(self) -> int:
        """How many ids are remembered at most."""
        return self._settled.limit

    def remember(self, ids: Iterable[str]) -> None:
        """Add alerts that were delivered or given up before the driver started."""
        for one in ids:
            self._settled[one] = None

    def deliver(self, record: dict[str, Any]) -> bool:
        """Deliver one alert or give it up, unless that was done before; False if the worker is being closed meanwhile."""
        try:
            body = json.loads(record["value"])
            alert = Notification(str(body["id"]), str(body["message"]), record["value"])
        except (ValueError, KeyError, TypeError) as error:
            return self._give_up(record, f"another program wrote to the log: {error!r}", attempts=0)
        if alert.id in self._settled:
            self.count(repeated=1)
            return True
        is_settled = self._send(alert, record)
        if is_settled:
            self._settled[alert.id] = None
        return is_settled

    def count(self, *, delivered: int = 0, repeated: int = 0, given_up: int = 0, lost: int = 0) -> None:
        with self._lock:
            known = self._status
            self._status = replace(
                known,
                delivered=known.delivered + delivered,
                repeated=known.repeated + repeated,
                given_up=known.given_up + given_up,
                lost=known.lost + lost,
            )

    def trouble(self, trouble: str | None) -> None:
        """Set the current problem; None when there is none any more."""
        with self._lock:
            self._status = replace(self._status, trouble=trouble)

    def _send(self, alert: Notification, record: dict[str, Any]) -> bool:
        pause_s = self._limits.first_pause_s
        for attempt in range(1, self._limits.attempts + 1):
            try:
                self._channel.send(alert)
            except DeliveryRejected as error:
                return self._give_up(record, str(error), attempt)
            except DeliveryFailed as error:
                self.trouble(str(error))
                if attempt == self._limits.attempts:
                    return self._give_up(record, str(error), attempt)
                wanted_s = max(pause_s, error.retry_after_s or 0.0)
                if self._stopping.wait(min(wanted_s, self._limits.longest_pause_s)):
                    return False
                pause_s *= 2
            except Exception as error:  # No error may end the worker.
                return self._give_up(record, f"unexpected {error!r}", attempt)
            else:
                self.trouble(None)
                self.count(delivered=1)
                return True
        raise AssertionError("the last attempt returns")

    def _give_up(self, record: dict[str, Any], reason: str, attempts: int) -> bool:
        """Write an alert to the undelivered topic, with retries until the worker is closed; False then."""
        _log.error("an alert is given up for %s: %s", self._group, reason)
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
                self._write_undelivered(rows)
            except ClientError as error:
                self.trouble(f"an alert that was given up ({reason}) cannot be written to topic {self._topic}: {error}")
                if self._stopping.wait(_BROKER_PAUSE_S):
                    return False
            else:
                self.trouble(reason)
                self.count(given_up=1)
                return True

    def _write_undelivered(self, rows: pyarrow.Table) -> None:
        with (
            closing(self._connection.new_cluster()) as cluster,
            Producer(cluster, max_record_bytes=LARGEST_RECORD_BYTES) as producer,
        ):
            producer.write(self._topic, rows)
