"""A small real schema registry over HTTP on the loopback interface: subjects, versions, ids and references, in memory."""

from __future__ import annotations

import json
from collections.abc import Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any
from urllib.parse import unquote


class RegistryServer:
    """Registers schemas by a call, serves them by HTTP, and counts what it was asked."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.authorizations: list[str | None] = []
        self.refusals: list[int] = []
        """The next answers, as HTTP codes, before it serves again."""
        self.required_authorization: str | None = None
        self._schemas: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._thread = Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}"

    def close(self) -> None:
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def register(
        self, subject: str, schema: Any, kind: str = "AVRO", references: Sequence[tuple[str, str, int]] = ()
    ) -> int:
        """Add a version. References are name, subject and version. Returns the id, which begins at 1."""
        text = schema if isinstance(schema, str) else json.dumps(schema)
        version = 1 + sum(entry["subject"] == subject for entry in self._schemas)
        entry = {"subject": subject, "version": version, "id": len(self._schemas) + 1, "schema": text}
        if kind != "AVRO":
            entry["schemaType"] = kind
        if references:
            entry["references"] = [dict(zip(("name", "subject", "version"), one, strict=True)) for one in references]
        self._schemas.append(entry)
        return len(self._schemas)

    def answer(self, path: str, authorization: str | None) -> tuple[int, Any]:
        self.asked.append(path)
        self.authorizations.append(authorization)
        if self.refusals:
            return self.refusals.pop(0), {"message": "refused"}
        if self.required_authorization not in (None, authorization):
            return 401, {"message": "unauthorized"}
        parts = [unquote(part) for part in path.split("/")[1:]]
        found: list[dict[str, Any]] = []
        if parts[:2] == ["schemas", "ids"]:
            found = [entry for entry in self._schemas if str(entry["id"]) == parts[2]]
            found = [
                {key: entry[key] for key in ("schema", "schemaType", "references") if key in entry} for entry in found
            ]
        elif parts[0] == "subjects":
            found = [entry for entry in self._schemas if entry["subject"] == parts[1]]
            found = [entry for entry in found if parts[3] in ("latest", str(entry["version"]))]
        return (200, found[-1]) if found else (404, {"error_code": 40403, "message": "Schema not found"})

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                code, answer = registry.answer(self.path, self.headers.get("Authorization"))
                content = json.dumps(answer).encode()
                self.send_response(code)
                self.send_header("Content-Length", str(len(content)))
                self.end_headers()
                self.wfile.write(content)

            def log_message(self, *_: object) -> None:
                """Nothing: the tests read `asked`."""

        return Handler


def framed(schema_id: int, payload: bytes) -> bytes:
    """A payload as serializers with a registry write it."""
    return b"\x00" + schema_id.to_bytes(4, "big") + payload
