"""Notifications by webhook and mail, sent beside the queries and never in them."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Iterator
from contextlib import closing
from types import TracebackType
from typing import Final, Self

from catchment.client.errors import ClientError
from catchment.client.offsets import LATEST
from catchment.client.topic_metadata import TopicPartition
from catchment.pipelines.alerts.channels import Channel, MailChannel, WebhookChannel
from catchment.pipelines.alerts.delivery import DeliveryLimits, DeliveryStatus
from catchment.pipelines.alerts.rule import AlertRule
from catchment.pipelines.alerts.worker import DeliveryWorker
from catchment.spark.options.connection import Connection

_log: Final = logging.getLogger("catchment.pipelines")
_CLOSE_S: Final = 15.0
_FINISH_S: Final = 30.0
"""How long a run that ends by itself waits for channels: a receiver that is away must not keep a scheduler waiting."""


class Notifier:
    """All delivery workers of a pipeline, open within a `with` block. Open it before the queries: alerts that fire earlier are not sent."""

    def __init__(
        self,
        rules: Iterable[AlertRule],
        connection: Connection,
        *,
        smtp: str | None = None,
        limits: DeliveryLimits | None = None,
    ) -> None:
        """Raises SettingsError for an invalid address."""
        rules = list(rules)
        self._connection = connection
        self._topics = {rule.log_topic for rule in rules}
        self._workers = [
            DeliveryWorker(connection, rule.pipeline, rule.name, name, channel, limits)
            for rule in rules
            for name, channel in _channels(rule, smtp)
        ]
        self._finish_by_s: float | None = None
        self._ends: dict[TopicPartition, int] | None = None

    def __enter__(self) -> Self:
        try:
            for worker in self._workers:
                worker.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def statuses(self) -> list[DeliveryStatus]:
        """The status of each worker."""
        return [worker.status for worker in self._workers]

    def has_finished(self) -> bool:
        """Whether all alerts are delivered that were in the log at the first call, or the time for that is over: the rest is
        left to the next start. Call it repeatedly once no alert fires any more."""
        if not self._workers:
            return True
        now_s = time.monotonic()
        if self._finish_by_s is None:
            self._finish_by_s = now_s + _FINISH_S
        try:
            self._ends = self._log_ends() if self._ends is None else self._ends
        except ClientError as error:
            _log.warning("it is unknown whether all alerts have been delivered: %s", error)
            return now_s > self._finish_by_s
        ends = self._ends
        return now_s > self._finish_by_s or all(worker.has_reached(ends) for worker in self._workers)

    def close(self) -> None:
        """Alerts that are not delivered by now are delivered after the next start."""
        deadline_s = time.monotonic() + _CLOSE_S
        for worker in self._workers:
            worker.close(timeout_s=0)
        for worker in self._workers:
            worker.close(timeout_s=max(0.0, deadline_s - time.monotonic()))

    def _log_ends(self) -> dict[TopicPartition, int]:
        with closing(self._connection.new_cluster()) as cluster:
            places = [(topic, number) for topic in self._topics for number in cluster.partitions(topic)]
            return {place: found.offset for place, found in cluster.list_offsets(places, LATEST).items()}


def _channels(rule: AlertRule, smtp: str | None) -> Iterator[tuple[str, Channel]]:
    for number, url in enumerate(rule.webhooks):
        yield f"webhook-{number}", WebhookChannel(url)
    for number, address in enumerate(rule.mails):
        yield f"mail-{number}", MailChannel(address, smtp)
