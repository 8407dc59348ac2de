"""The status of a run, published in the run file and over HTTP on the loopback interface: `/status` as JSON, `/metrics` for Prometheus."""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from catchment.pipelines.driving.status.metrics import PipelineMetrics
from catchment.pipelines.driving.status.model import RunStatus
from catchment.pipelines.driving.supervision.run_file import read_run, write_run
from catchment.pipelines.home import Home
from catchment.spark.launch.python_workers import ignore_disconnects


class Publisher:
    """Publishes copies: readers on other threads never see a status that changes while they read it."""

    def __init__(self, home: Home, status: RunStatus, port: int) -> None:
        self._home = home
        self._status = status
        self._lock = threading.Lock()
        # Fields that the supervisor has written stay.
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


_HOST: Final = "127.0.0.1"


class StatusServer:
    """Serves requests on its own threads until it is closed. Raises OSError if the port is taken."""

    def __init__(self, port: int, read: Callable[[], dict[str, Any]]) -> None:
        metrics = PipelineMetrics(read)

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                match self.path.partition("?")[0]:
                    case "/status":
                        self._answer(json.dumps(read(), ensure_ascii=False).encode(), "application/json")
                    case "/metrics":
                        self._answer(metrics.render(), "text/plain; version=0.0.4; charset=utf-8")
                    case _:
                        self.send_error(HTTPStatus.NOT_FOUND, "there is /status and /metrics")

            def log_message(self, *_: object) -> None:
                """A line for each scrape of Prometheus would only fill the log."""

            def _answer(self, body: bytes, kind: str) -> None:
                self.send_response(HTTPStatus.OK)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self._server = ThreadingHTTPServer((_HOST, port), Handler)
        self._server.daemon_threads = True
        ignore_disconnects(self._server)
        self.address = f"http://{_HOST}:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, name="status", daemon=True)
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()
