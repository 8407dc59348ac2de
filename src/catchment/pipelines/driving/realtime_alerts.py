"""The real-time alerts, run by a process beside the driver: Spark runs them in a session of their own.

The process ends when its standard input ends, and so with the driver. On its standard output it reports that its queries run. Alerts that
real-time mode does not allow, and every alert of a run with an end, are decided in micro-batches like the others. What the
declaration does not show, the process itself finds out.
"""

from __future__ import annotations

import logging
import os
import subprocess
import time
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

from catchment.pipelines.declaration.specification import PipelineSpecification
from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.failures import Failure, FailureKind
from catchment.pipelines.driving.jvm import end_with_input
from catchment.pipelines.driving.restarting_query import RetryLimits
from catchment.pipelines.driving.status.model import QueryStatus
from catchment.pipelines.realtime.eligibility import NOT_ALLOWED, asking_alerts, notes, reasons_against
from catchment.spark.launch.connector_jars import JarsUnavailable, connector_jars

_logger = logging.getLogger(__name__)

_NAME: Final = "realtime-alerts"
_ENDS: Final = "a run that processes what is there now ends, and real-time mode does not"
_BROKERS: Final = "the brokers"
_END_S: Final = 20.0
_HEALTHY_S: Final = 120.0
"""A process whose queries ran for this long was healthy: Spark's connector waits a minute for brokers before it fails."""
_REPORT_BYTES: Final = 64


class RealtimeAlerts(NamedTuple):
    """The alerts that ask for real-time mode: those that run in it, and why the others do not."""

    names: tuple[str, ...]
    refusals: tuple[str, ...]


def realtime_alerts(specification: PipelineSpecification, *, is_endless: bool) -> RealtimeAlerts:
    """All of them run in real-time mode or none: they share a session, whose slots are counted together."""
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


class RealtimeProcess:
    """Started at the first check, and restarted when it has died."""

    def __init__(
        self,
        command: Sequence[str],
        patience: RetryLimits | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.status = QueryStatus(_NAME, "outlet")
        self.is_refused = False
        """Whether the process found that the alerts must be decided in micro-batches; then it is not restarted."""
        self._command = list(command)
        self._patience = patience or RetryLimits()
        self._clock = clock
        self._process: subprocess.Popen[bytes] | None = None
        self._start_at_s = clock()
        self._running_since_s: float | None = None
        self._failing_since_s: float | None = None
        self._failures = self._losses = 0

    def check(self) -> Failure | None:
        """A failure that ends the run, or None."""
        now_s = self._clock()
        if self._process is None:
            if not self.is_refused and now_s >= self._start_at_s:
                self._process = _started(self._command)
                self._running_since_s = None
            return None
        if (code := self._process.poll()) is None:
            self._note_health(self._process, now_s)
            return None
        self._close()
        return self._ended(code, now_s)

    def close(self) -> None:
        """Wait until it ends by itself, but not for ever."""
        if self._process is not None:
            self._close()

    def _ended(self, code: int, now_s: float) -> Failure | None:
        if code == NOT_ALLOWED:
            self.is_refused = True
            self.status.state = "stopped"
            return None
        failure = _failure_of(code)
        self.status.last_error = failure.message
        self._failures += 1
        self._failing_since_s = now_s if self._failing_since_s is None else self._failing_since_s
        is_away = failure.kind is FailureKind.BROKERS_AWAY
        self._losses = 0 if is_away else self._losses + 1
        has_waited = now_s - self._failing_since_s > self._patience.away_s
        if not failure.is_transient or self._losses > self._patience.lost or (is_away and has_waited):
            self.status.state = "failed"
            return failure._replace(message=f"{_NAME}: {failure.message}")
        pause_s = self._patience.pause_s(self._failures)
        _logger.warning("%s; restarting it in %.1f s", failure.message, pause_s)
        self._start_at_s = now_s + pause_s
        self.status.state = "waiting"
        self.status.waits_for = _BROKERS if is_away else None
        self.status.restarts += 1
        return None

    def _note_health(self, process: subprocess.Popen[bytes], now_s: float) -> None:
        """The process reports when its queries run. Until then it may still be waiting for brokers that are away."""
        if self._running_since_s is None and _has_reported(process):
            self._running_since_s = now_s
            self.status.state = "running"
            self.status.waits_for = None
        if self._running_since_s is not None and now_s - self._running_since_s > _HEALTHY_S:
            self._failing_since_s = None
            self._failures = self._losses = 0

    def _close(self) -> None:
        process, self._process = self._process, None
        assert process is not None, "only a process that was started is closed"
        end_with_input(process, _END_S)
        if process.stdout is not None:
            process.stdout.close()


def _started(command: Sequence[str]) -> subprocess.Popen[bytes]:
    process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None, "its output is a pipe"
    os.set_blocking(process.stdout.fileno(), False)
    return process


def _has_reported(process: subprocess.Popen[bytes]) -> bool:
    assert process.stdout is not None, "its output is a pipe"
    try:
        return bool(os.read(process.stdout.fileno(), _REPORT_BYTES))
    except BlockingIOError:
        return False


def _failure_of(code: int) -> Failure:
    """The failure that an exit code stands for."""
    if code == ExitCode.AWAY:
        message = "the brokers do not answer the process of the real-time alerts; its output is in the log"
        return Failure(FailureKind.BROKERS_AWAY, message, ExitCode.AWAY)
    message = f"the process of the real-time alerts ended with exit code {code}; its output is in the log"
    if code in (ExitCode.CONFIGURATION, ExitCode.REFUSED):
        return Failure(FailureKind.PERMANENT, message, ExitCode(code))
    return Failure(FailureKind.WORK_LOST, message, ExitCode.FAILED)
