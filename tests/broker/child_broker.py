"""A broker in a process of its own, which tests may kill, starve and measure."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType

from catchment.ports.network import free_port

_START_SECONDS = 60.0
_STOP_SECONDS = 30.0


class ChildBroker:
    """`catchment broker` on a fixed port and directory, so that it can die and come back."""

    def __init__(self, directory: Path, settings: Mapping[str, str] | None = None) -> None:
        self.port = free_port()
        self.log_path = directory / "broker.log"
        values = {
            "listeners": f"PLAINTEXT://127.0.0.1:{self.port}",
            "log.dirs": str(directory / "data"),
            **(settings or {}),
        }
        options = [text for name, value in values.items() for text in ("--set", f"{name}={value}")]
        self._command = [sys.executable, "-m", "catchment.cli", "broker", *options]
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> ChildBroker:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._process is not None:
            self.kill()

    @property
    def bootstrap_servers(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def is_alive(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def start(self) -> None:
        with self.log_path.open("ab") as log:
            self._process = subprocess.Popen(self._command, stdout=log, stderr=log)
        deadline_s = time.monotonic() + _START_SECONDS
        while True:
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=1).close()
                return
            except OSError:
                if not self.is_alive or time.monotonic() > deadline_s:
                    raise AssertionError(f"the broker did not start:\n{self.log_tail()}") from None
                time.sleep(0.01)

    def kill(self) -> None:
        self._end(signal.SIGKILL)

    def stop(self) -> int:
        return self._end(signal.SIGTERM)

    def resident_bytes(self, *, at_most_ever: bool = False) -> int:
        """Memory now, or the most there ever was."""
        assert self._process is not None
        status = Path(f"/proc/{self._process.pid}/status").read_text()
        found = re.search(rf"{'VmHWM' if at_most_ever else 'VmRSS'}:\s+(\d+) kB", status)
        assert found is not None
        return int(found[1]) * 1024

    def log_tail(self) -> str:
        return self.log_path.read_text(errors="replace")[-3000:]

    def _end(self, signal_number: signal.Signals) -> int:
        assert self._process is not None
        process, self._process = self._process, None
        os.kill(process.pid, signal_number)
        return process.wait(_STOP_SECONDS)
