"""The supervisor process of a pipeline: it starts the driver, restarts it if it dies, and stops it on request.

It has no Spark, so it survives whatever happens to Spark. The driver's standard input is a pipe to which nothing is written:
it closes when the supervisor ends, however that ends, and then the driver stops by itself.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
import uuid
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from catchment.pipelines.driving.exit_codes import FINAL, ExitCode
from catchment.pipelines.driving.supervision.cleanup import RUN_VARIABLE, Scratch, end_processes, remove_scratch
from catchment.pipelines.driving.supervision.run_file import RunLock, now_text, read_run, with_queries_ended, write_run
from catchment.pipelines.driving.supervision.stop_flag import StopFlag
from catchment.pipelines.home import Home

_TICK_S: Final = 0.25


@dataclass(frozen=True)
class Limits:
    """Limits of restarts and stops."""

    starts: int = 5
    """How many drivers may be started within the window before the run fails."""
    window_s: float = 300.0
    first_pause_s: float = 0.5
    longest_pause_s: float = 30.0
    stop_s: float = 1.5
    """How long a driver may take to stop before it is killed. That loses and duplicates nothing: the next run repeats
    the batch that was under way."""


class Supervisor:
    """One run of a pipeline, from start to end."""

    def __init__(
        self,
        home: Home,
        command: Sequence[str],
        facts: Mapping[str, Any],
        *,
        limits: Limits | None = None,
        log: Path | None = None,
        show: Callable[[dict[str, Any]], None] = lambda run: None,
        is_endless: bool = True,
    ) -> None:
        """`facts` are in the run file from the start; `log` takes the driver's output instead of ours."""
        self._home = home
        self._command = list(command)
        self._limits = limits or Limits()
        self._log = log
        self._show = show
        self._is_endless = is_endless
        self._asked = StopFlag()
        self._asked_by: int | None = None
        self._is_urgent = False
        self._starts: deque[float] = deque()
        self._run_id = str(uuid.uuid4())
        self._scratch = Scratch()
        self._run: dict[str, Any] = dict(facts) | {
            "run_id": self._run_id,
            "pid": os.getpid(),
            "started_at": now_text(),
            "driver_starts": 0,
            "state": "starting",
            "scratch": str(self._scratch.folder),
        }

    def ask_to_stop(self, number: int) -> None:
        """For a signal handler: at the first call the driver stops cleanly, at the second it is killed."""
        self._is_urgent = self._asked.is_set()
        self._asked_by = self._asked_by or number
        self._asked.set()

    def run(self) -> int:
        """Run until the driver is done, fails for good, or is stopped; the exit code. Raises `AlreadyRunning`."""
        lock = RunLock(self._home)
        try:
            self._end_earlier_run()
            self._write()
            return self._end(self._supervise(lock))
        finally:
            end_processes(self._run_id)
            self._scratch.remove()
            lock.close()

    def _supervise(self, lock: RunLock) -> int:
        while True:
            if (code := self._drive(lock)) in FINAL or self._asked.is_set():
                return code
            cause = f"the driver was killed by {signal.Signals(-code).name}" if code < 0 else "the driver lost Spark"
            if self._has_died_too_often():
                self._run["error"] = (
                    f"{cause}, the last of {len(self._starts)} within {self._limits.window_s:g} s: it is not restarted"
                )
                return ExitCode.FAILED
            pause_s = self._limits.first_pause_s * 2 ** (len(self._starts) - 1)
            self._run |= {"state": "starting", "error": None, "last_error": f"{cause}; it is restarted"}
            self._write()
            self._asked.wait(min(pause_s, self._limits.longest_pause_s))
            if self._asked.is_set():
                return ExitCode.DONE if self._is_endless else ExitCode.INTERRUPTED

    def _drive(self, lock: RunLock) -> int:
        """One driver from start to end; its exit code, negative if a signal ended it."""
        self._starts.append(time.monotonic())
        starts = self._run["driver_starts"] + 1
        self._run |= {"driver_starts": starts, "driver_started_at": now_text(), "spark_pid": None, "driver_pid": None}
        self._write()
        output = None if self._log is None else self._log.open("ab")
        try:
            driver = subprocess.Popen(
                self._command,
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=output,
                pass_fds=(lock.descriptor,),
                # Ctrl-C reaches every process of the terminal's group; only we may stop Spark.
                start_new_session=True,
                env=os.environ | self._scratch.environment() | {RUN_VARIABLE: self._run_id},
            )
        finally:
            if output is not None:
                output.close()
        with driver:
            code = self._wait(driver)
        end_processes(self._run_id)
        self._run = (read_run(self._home) or self._run) | {"driver_starts": self._run["driver_starts"]}
        return code

    def _wait(self, driver: subprocess.Popen[bytes]) -> int:
        stop_by: float | None = None
        while True:
            try:
                return driver.wait(_TICK_S)
            except subprocess.TimeoutExpired:
                self._show(read_run(self._home) or self._run)
            if self._asked.is_set():
                if stop_by is None:
                    stop_by = time.monotonic() + self._limits.stop_s
                    driver.terminate()
                elif self._is_urgent or time.monotonic() > stop_by:
                    driver.kill()

    def _has_died_too_often(self) -> bool:
        while self._starts and self._starts[0] < time.monotonic() - self._limits.window_s:
            self._starts.popleft()
        return len(self._starts) >= self._limits.starts

    def _end(self, code: int) -> int:
        """Record the end of the run in the run file, and return its exit code."""
        if self._asked.is_set() and code not in FINAL:
            # It was killed because it did not stop in time.
            code = ExitCode.DONE if self._is_endless else ExitCode.INTERRUPTED
        if code == ExitCode.DONE and self._is_endless and self._asked_by == signal.SIGINT:
            code = ExitCode.INTERRUPTED
        has_failed = code not in (ExitCode.DONE, ExitCode.INTERRUPTED)
        self._run |= {"state": "failed" if has_failed else "stopped", "exit_code": int(code), "ended_at": now_text()}
        self._run["asked_by"] = signal.Signals(self._asked_by).name if self._asked_by else None
        self._run = with_queries_ended(self._run)
        self._write()
        self._show(self._run)
        return int(code)

    def _end_earlier_run(self) -> None:
        """A run that was killed together with its driver may have left Spark behind."""
        if (earlier := read_run(self._home)) is not None and "run_id" in earlier:
            end_processes(earlier["run_id"])
            remove_scratch(earlier.get("scratch"))

    def _write(self) -> None:
        write_run(self._home, self._run)
