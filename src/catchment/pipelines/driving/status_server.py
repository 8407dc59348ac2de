"""The status over HTTP, on the loopback interface: `/status` as JSON, `/metrics` for Prometheus."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from catchment.pipelines.driving.metrics import PipelineMetrics
from catchment.spark.launch.python_workers import ignore_disconnects

_HOST: Final = "127.0.0.1"


class StatusServer:
    """Answers on threads of its own until it is closed. OSError where the port is taken."""

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
                """Nobody wants a line for each time that Prometheus asks."""

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
