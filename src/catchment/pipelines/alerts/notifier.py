"""The people and programs behind webhooks and mail addresses are told of alerts here, beside the queries and never in them."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Final, Self

from catchment.pipelines.alerts.lane import DeliveryLimits, Lane, LaneStatus
from catchment.pipelines.alerts.mail import Mail
from catchment.pipelines.alerts.rule import AlertRule
from catchment.pipelines.alerts.telling import Listener
from catchment.pipelines.alerts.webhook import Webhook
from catchment.spark.connection import Connection

_CLOSE_S: Final = 15.0


class Notifier:
    """All lanes of a pipeline, open within a `with` block. Open it before the queries: alerts that fire earlier go untold."""

    def __init__(
        self,
        rules: Iterable[AlertRule],
        connection: Connection,
        *,
        smtp: str | None = None,
        limits: DeliveryLimits | None = None,
    ) -> None:
        """SettingsError says which address is none."""
        self._lanes = [
            Lane(connection, rule.pipeline, rule.name, name, listener, limits)
            for rule in rules
            for name, listener in _listeners(rule, smtp)
        ]

    def __enter__(self) -> Self:
        try:
            for lane in self._lanes:
                lane.open()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    @property
    def statuses(self) -> list[LaneStatus]:
        """How each lane is doing."""
        return [lane.status for lane in self._lanes]

    def close(self) -> None:
        """What could not be told by now is told after the next start."""
        deadline_s = time.monotonic() + _CLOSE_S
        for lane in self._lanes:
            lane.close(timeout_s=0)
        for lane in self._lanes:
            lane.close(timeout_s=max(0.0, deadline_s - time.monotonic()))


def _listeners(rule: AlertRule, smtp: str | None) -> Iterator[tuple[str, Listener]]:
    for number, url in enumerate(rule.webhooks):
        yield f"webhook-{number}", Webhook(url)
    for number, address in enumerate(rule.mails):
        yield f"mail-{number}", Mail(address, smtp)
