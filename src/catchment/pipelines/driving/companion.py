"""The process beside the driver that has the real-time alerts: Spark runs them in a session of their own.

It ends when its standard input does, and so with the driver. Alerts that real-time mode does not allow, and every alert of a run
that is to end, are decided in micro-batches like the others. What a declaration cannot tell, the process itself finds out.
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
from catchment.pipelines.realtime.eligibility import asking_alerts, reasons_against
from catchment.pipelines.realtime.refusals import NOT_ALLOWED, notes
from catchment.pipelines.specification import PipelineSpecification
from catchment.spark.connector_jars import JarsUnavailable, connector_jars

_logger = logging.getLogger(__name__)

_NAME: Final = "realtime-alerts"
_ENDS: Final = "a run that processes what is there now ends, and real-time mode does not"
_END_S: Final = 20.0
_WELL_S: Final = 60.0
"""Who has lived for this long was well."""


class RealtimeAlerts(NamedTuple):
    """The alerts that ask for real-time mode: those that have it, and why the others do not."""

    names: tuple[str, ...]
    refusals: tuple[str, ...]


def realtime_alerts(specification: PipelineSpecification, *, is_endless: bool) -> RealtimeAlerts:
    """All of them have it or none: they share a session, whose slots are counted together."""
    asking = asking_alerts(specification)
    if not is_endless:
        reasons = {name: [_ENDS] for name in asking}
    else:
        reasons = {name: found for name in asking if (found := reasons_against(specification, name))}
    if asking and not reasons:
        try:
            connector_jars()
        except JarsUnavailable as error:
            reasons = {name: [str(error)] for name in asking}
    return RealtimeAlerts((), notes(asking, reasons)) if reasons else RealtimeAlerts(tuple(asking), ())


class Companion:
    """Started when it is first looked at, and again when it has died."""

    def __init__(
        self,
        command: Sequence[str],
        patience: Patience | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.status = QueryStatus(_NAME, "outlet")
        self.is_refused = False
        """Whether the alerts are to be decided in micro-batches, by what the process has found; it is not started again then."""
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
            if not self.is_refused and now_s >= self._start_at_s:
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
        if code == NOT_ALLOWED:
            self.is_refused = True
            self.status.state = "stopped"
            return None
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
