"""No traceback from a Python process of Spark that Spark has hung up on.

A query with a limit closes the connection to workers that still have rows to send, and a stream that is stopped closes that to
its reader. Over a Unix domain socket the process notices at once, and PySpark prints the broken pipe as if it had failed. The
driver's own process is hung up on where a stream is stopped in the middle of its planning: the JVM opens the next connection
when it needs one.
"""

from __future__ import annotations

import struct
import sys
import traceback
from collections.abc import Callable
from socketserver import BaseServer
from types import TracebackType
from typing import Any, Final

_HANG_UPS: Final = (BrokenPipeError, ConnectionResetError)
"""What writing to a connection raises that the other side has closed, or has left with something unread: one that was killed."""
_Report = Callable[[type[BaseException], BaseException, TracebackType | None], None]


class QuietTraceback:
    """What PySpark's daemon uses of the module `traceback`."""

    @staticmethod
    def format_exc() -> str:
        error = sys.exc_info()[1]
        # A worker that waits for its next task when the JVM is killed has an answer left that no process will read.
        return f"{error}\n" if isinstance(error, _HANG_UPS) else traceback.format_exc()

    @staticmethod
    def print_exc() -> None:
        if not isinstance(sys.exc_info()[1], _HANG_UPS):
            traceback.print_exc()


def accept_hang_ups(server: BaseServer) -> None:
    """For a server in the driver, such as the one that takes what workers have counted: say nothing of connections that end."""
    report = server.handle_error

    def report_failure(request: Any, client_address: Any) -> None:
        # One that ends in the middle of a number leaves too few bytes of it.
        if not isinstance(sys.exc_info()[1], (EOFError, struct.error, *_HANG_UPS)):
            report(request, client_address)

    server.__dict__["handle_error"] = report_failure


def keep_quiet_about_hang_ups() -> None:
    """Called where the data source is imported; changes nothing but in processes that PySpark started for its own work."""
    main = sys.modules["__main__"]
    program = main.__spec__.name if main.__spec__ is not None else ""
    if program == "pyspark.daemon":
        main.__dict__["traceback"] = QuietTraceback
    elif program.startswith("pyspark."):
        sys.excepthook = _reporting_by(sys.excepthook)


def _reporting_by(report: _Report) -> _Report:
    def report_failure(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, _HANG_UPS):
            report(kind, error, trace)

    return report_failure
