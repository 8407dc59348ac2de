"""The broker's own log: one line an event, as text for people or as JSON for collectors.

Each entry of a call's `extra` becomes a field, so that logs can be searched by topic or partition.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Final, TextIO

_STANDARD_FIELDS: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class TextLines(logging.Formatter):
    """`2026-01-31T12:00:00.000Z INFO catchment.broker.server the message topic=t partition=0`."""

    def format(self, record: logging.LogRecord) -> str:
        fields = "".join([f" {name}={_quoted(value)}" for name, value in _extra(record).items()])
        line = f"{_time(record)} {record.levelname} {record.name} {record.getMessage()}{fields}"
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        fields = {
            "time": _time(record),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **_extra(record),
        }
        if record.exc_info:
            fields["exception"] = self.formatException(record.exc_info)
        return json.dumps(fields, default=str, ensure_ascii=False)


def configure_logging(line_format: str = "text", *, level: int = logging.INFO, stream: TextIO | None = None) -> None:
    """Write the lines of all our loggers to a stream, by default standard error. Another call replaces the stream."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines() if line_format == "json" else TextLines())
    logger = logging.getLogger("catchment")
    logger.handlers = [handler]
    logger.setLevel(level)
    logger.propagate = False


def _extra(record: logging.LogRecord) -> dict[str, object]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD_FIELDS}


def _quoted(value: object) -> str:
    text = str(value)
    return json.dumps(text, ensure_ascii=False) if not text or any(char in ' "=\n' for char in text) else text


def _time(record: logging.LogRecord) -> str:
    moment = datetime.fromtimestamp(record.created, UTC)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
