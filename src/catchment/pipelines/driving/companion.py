"""The process beside the driver that has the real-time alerts: Spark runs them in a session of their own.

It ends when its standard input does, and so with the driver. An alert that real-time mode does not allow, and every alert of a run
that is to end, is decided in micro-batches like the others.
"""

from __future__ import annotations

import logging
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.failures import Failure, FailureKind
from catchment.pipelines.driving.jvm import end_with_input
from catchment.pipelines.driving.keeping import Patience
from catchment.pipelines.driving.status import QueryStatus
from catchment.pipelines.realtime.eligibility import reasons_against
from catchment.pipelines.specification import PipelineSpecification
from catchment.spark.connector_jars import JarsUnavailable, connector_jars

_logger = logging.getLogger(__name__)

_NAME: Final = "realtime-alerts"
_END_S: Final = 20.0
_WELL_S: Final = 60.0
"""Who has lived for this long was well."""


class RealtimeAlerts(NamedTuple):
    """The alerts that ask for real-time mode: those that have it, and why the others do not."""

    names: tuple[str, ...]
    refusals: tuple[str, ...]


def realtime_alerts(specification: PipelineSpecification, *, is_endless: bool) -> RealtimeAlerts:
    """All of them have it or none: they share a session, whose slots are counted together."""
    asking = [name for name, alert in specification.alerts.items() if alert.trigger == "realtime"]
    if not is_endless:
        return RealtimeAlerts((), ())
    refusals = [
        f"alert {name} is decided in micro-batches: {reason}"
        for name in asking
        for reason in reasons_against(specification, name)
    ]
    if asking and not refusals:
        try:
            connector_jars()
        except JarsUnavailable as error:
            refusals = [f"alert {name} is decided in micro-batches: {error}" for name in asking]
    return RealtimeAlerts((), tuple(refusals)) if refusals else RealtimeAlerts(tuple(asking), ())


class Companion:
    """Started when it is first looked at, and again when it has died."""

    def __init__(
        self,
        command: Sequence[str],
        patience: Patience | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.status = QueryStatus(_NAME, "outlet")
        self._command = list(command)
        self._patience = patience or Patience()
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._start_at_s = clock()
        self._started_s = 0.0
        self._failures = 0

    def look(self) -> Failure | None:
        """A failure that ends the run, or None."""
        now_s = self._clock()
        if self._process is None:
            if now_s >= self._start_at_s:
                self._process = subprocess.Popen(self._command, stdin=subprocess.PIPE)
                self._started_s = now_s
                self.status.state = "running"
            return None
        if (code := self._process.poll()) is None:
            if now_s - self._started_s > _WELL_S:
                self._failures = 0
            return None
        self._close()
        return self._ended(code, now_s)

    def close(self) -> None:
        """Let it end by itself, but not for ever."""
        if self._process is not None:
            self._close()

    def _ended(self, code: int, now_s: float) -> Failure | None:
        self._failures += 1
        message = f"the process of the real-time alerts ended with {code}; what it said is in the log"
        self.status.last_error = message
        is_final = code in (ExitCode.CONFIGURATION, ExitCode.REFUSED)
        if is_final or self._failures > self._patience.lost:
            self.status.state = "failed"
            exit_code = ExitCode(code) if is_final else ExitCode.FAILED
            return Failure(FailureKind.PERMANENT, f"{_NAME}: {message}", exit_code)
        pause_s = min(self._patience.first_pause_s * 2 ** (self._failures - 1), self._patience.longest_pause_s)
        _logger.warning("%s; it is started again in %.1f s", message, pause_s)
        self._start_at_s = now_s + pause_s
        self.status.state = "waiting"
        self.status.restarts += 1
        return None

    def _close(self) -> None:
        process, self._process = self._process, None
        assert process is not None, "only a process that was started is closed"
        end_with_input(process, _END_S)
