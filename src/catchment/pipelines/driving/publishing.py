"""The status of a run, put where others find it: the run file, and an address on the loopback interface."""

from __future__ import annotations

import os
import threading
from typing import Any

from catchment.pipelines.driving.run_file import read_run, write_run
from catchment.pipelines.driving.status import RunStatus
from catchment.pipelines.driving.status_server import StatusServer
from catchment.pipelines.home import Home


class Publisher:
    """Makes a copy whenever it is told to: those who ask on other threads never see a status that changes under them."""

    def __init__(self, home: Home, status: RunStatus, port: int) -> None:
        self._home = home
        self._status = status
        self._lock = threading.Lock()
        # What the supervisor has written stays.
        self._facts: dict[str, Any] = read_run(home) or {}
        self._last = self._copy()
        self._server = StatusServer(port, self.last)
        status.address = self._server.address

    def publish(self) -> None:
        run = self._copy()
        with self._lock:
            self._last = run
        write_run(self._home, run)

    def last(self) -> dict[str, Any]:
        with self._lock:
            return self._last

    def close(self) -> None:
        self._server.close()

    def _copy(self) -> dict[str, Any]:
        return self._facts | self._status.as_json() | {"driver_pid": os.getpid()}
