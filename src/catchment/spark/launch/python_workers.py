"""Adjustments to the Python processes that Spark starts: quiet disconnects, no empty profiles, cheap garbage collection.

A query with a limit closes the connection to workers that still have rows to send, and a stream that stops closes the connection to
its reader. Over a Unix domain socket the process notices at once, and PySpark prints the broken pipe as if the task had failed. The
driver's own connection closes when a stream stops in the middle of planning: the JVM opens the next one when it needs it.
"""

from __future__ import annotations

import gc
import struct
import sys
import traceback
from collections.abc import Callable
from functools import cache
from socketserver import BaseServer
from types import TracebackType
from typing import IO, Any, Final

from pyspark.accumulators import SpecialAccumulatorIds, _accumulatorRegistry

_DISCONNECTS: Final = (BrokenPipeError, ConnectionResetError)
"""Raised by a write to a connection that the peer has closed, or that a killed peer left with unread bytes."""
_PROFILES: Final = (SpecialAccumulatorIds.SQL_UDF_PROFIER, SpecialAccumulatorIds.SQL_UDF_PROFIER_V2)
_Report = Callable[[type[BaseException], BaseException, TracebackType | None], None]


class QuietTraceback:
    """The functions of the module `traceback` that PySpark's daemon calls."""

    @staticmethod
    def format_exc() -> str:
        error = sys.exc_info()[1]
        # A worker that waits for its next task when the JVM is killed still holds an answer that no process will read.
        return f"{error}\n" if isinstance(error, _DISCONNECTS) else traceback.format_exc()

    @staticmethod
    def print_exc() -> None:
        if not isinstance(sys.exc_info()[1], _DISCONNECTS):
            traceback.print_exc()


def ignore_disconnects(server: BaseServer) -> None:
    """Stop a server in the driver, such as the accumulator server, from printing connections that end."""
    report = server.handle_error

    def report_failure(request: Any, client_address: Any) -> None:
        # A connection that ends in the middle of a number leaves too few bytes to unpack.
        if not isinstance(sys.exc_info()[1], (EOFError, struct.error, *_DISCONNECTS)):
            report(request, client_address)

    server.__dict__["handle_error"] = report_failure


def silence_disconnects() -> None:
    """Called when the data source is imported; it has an effect only in processes that PySpark started."""
    main = sys.modules["__main__"]
    program = main.__spec__.name if main.__spec__ is not None else ""
    if program == "pyspark.daemon":
        main.__dict__["traceback"] = QuietTraceback
    elif program.startswith("pyspark."):
        sys.excepthook = _reporting_by(sys.excepthook)


def _reporting_by(report: _Report) -> _Report:
    def report_failure(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if not issubclass(kind, _DISCONNECTS):
            report(kind, error, trace)

    return report_failure


def drop_empty_profiles() -> None:
    """Send no empty profile with the answer of a data source; called when the data source is imported.

    Every Python process that plans for a data source sends the results of PySpark's profiler, empty ones as well. They reach the
    client of a Declarative Pipeline, which does not know such an answer and fails the run after all its rows were written (seen with
    Spark 4.3.0).
    """
    planning = sys.modules.get("pyspark.sql.worker.utils")
    if planning is None:
        return
    send = planning.send_accumulator_updates

    def send_without_empty_profiles(connection: IO[bytes]) -> None:
        for profile in _PROFILES:
            if profile in _accumulatorRegistry and not _accumulatorRegistry[profile]._value:
                del _accumulatorRegistry[profile]
        send(connection)

    planning.__dict__["send_accumulator_updates"] = send_without_empty_profiles


@cache
def freeze_loaded_objects() -> None:
    """Exclude everything loaded so far from garbage collection; only the first call does anything.

    PySpark's processes collect garbage after every task, and the planner after every plan. With all imports and the compiled loops
    that takes 20 ms, as long as a small task itself. Call it when a task has used everything once.
    """
    gc.collect()
    gc.freeze()
