"""A server as a child process: its output goes to a file, its use of resources is read from /proc, and it is stopped reliably."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from catchment.ports.process_tree import process_tree

_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
_STOP_TIMEOUT_SECONDS = 30


class ServerProcess:
    """One process and its descendants."""

    def __init__(self, command: Sequence[str], log: Path, environment: Mapping[str, str] | None = None) -> None:
        self._log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(environment or {})},
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """The process itself, without its descendants."""
        return self._process.pid

    def check_running(self) -> None:
        """Raise with the end of the log if the server has ended."""
        if self._process.poll() is not None:
            tail = self._log.read_text(errors="replace")[-2000:]
            raise RuntimeError(f"the server ended with code {self._process.returncode}:\n{tail}")

    def cpu_seconds(self) -> float:
        """User and system time so far of the whole tree, including children that have ended."""
        return tree_cpu_seconds(self.pid)

    def resident_bytes(self) -> int:
        """Resident memory of the whole tree."""
        return sum(map(_resident_bytes, process_tree(self.pid)))

    def stop(self) -> None:
        """Terminate, then kill, the whole tree."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
            try:
                self._process.wait(_STOP_TIMEOUT_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()


def tree_cpu_seconds(pid: int) -> float:
    """User and system time so far of a process and its descendants, including those that have ended."""
    return sum(map(_cpu_seconds, process_tree(pid)))


def _cpu_seconds(pid: int) -> float:
    try:
        # The name in parentheses may contain spaces, so the fields are counted after it.
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS_PER_SECOND


def _resident_bytes(pid: int) -> int:
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0


_INTERVAL_SECONDS = 0.2


class PeakMemory:
    """Samples the resident memory five times a second, which costs next to nothing, until the block ends."""

    def __init__(self, process: ServerProcess) -> None:
        self._process = process
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self.peak_bytes = 0

    def _watch(self) -> None:
        while not self._done.wait(_INTERVAL_SECONDS):
            self._look()

    def _look(self) -> None:
        self.peak_bytes = max(self.peak_bytes, self._process.resident_bytes())

    def __enter__(self) -> Self:
        self._look()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._done.set()
        self._thread.join()
        self._look()
