"""Real servers for webhooks and mail, on loopback: each answers by a script and keeps what it was sent."""

from __future__ import annotations

import json
import socketserver
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple


class Received(NamedTuple):
    """One request to the webhook."""

    body: dict[str, Any]
    headers: dict[str, str]


class WebhookServer(ThreadingHTTPServer):
    """Answers 200, or what `answers` holds next; 0 is no answer at all, a pair has a header for the answer."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _WebhookHandler)
        self.received: list[Received] = []
        self.answers: list[int | tuple[int, dict[str, str]]] = []
        self.broken: dict[str, int] = {}
        """Answers for alerts about these keys, always."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook?secret=1"

    def messages(self) -> list[str]:
        return [one.body["message"] for one in self.received]


class _WebhookHandler(BaseHTTPRequestHandler):
    server: WebhookServer

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.received.append(Received(body, dict(self.headers)))
        answer = self.server.answers.pop(0) if self.server.answers else 200
        status, headers = answer if isinstance(answer, tuple) else (answer, {})
        status = next((code for key, code in self.server.broken.items() if key in body["message"]), status)
        if status == 0:
            self.close_connection = True
            return
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", "4")
        self.end_headers()
        self.wfile.write(b"said")

    def log_request(self, code: object = "-", size: object = "-") -> None:
        """Nothing on the terminal."""


class MailServer(socketserver.ThreadingTCPServer):
    """A mail server that speaks just enough; `replies` are for RCPT, one each, and 250 when they are used up."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _MailHandler)
        self.letters: list[str] = []
        self.replies: list[str] = []

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.server_address[1]}?from=alerts@example.org"


class _MailHandler(socketserver.StreamRequestHandler):
    server: MailServer

    def handle(self) -> None:
        self._say("220 ready")
        for line in self.rfile:
            verb = line[:4].upper()
            if verb == b"RCPT" and self.server.replies:
                self._say(self.server.replies.pop(0))
            elif verb == b"DATA":
                self._say("354 go on")
                lines = iter(self.rfile.readline, b".\r\n")
                self.server.letters.append(b"".join(lines).decode())
                self._say("250 taken")
            elif verb == b"QUIT":
                self._say("221 bye")
                return
            else:
                self._say("250 fine")

    def _say(self, text: str) -> None:
        self.wfile.write(f"{text}\r\n".encode())


@contextmanager
def serving(server: WebhookServer | MailServer) -> Iterator[None]:
    """The server at work on a thread."""
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
