"""The driver process, which runs Spark. It ends by itself, with its JVM, when its supervisor is gone."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from catchment.pipelines.declaration.loading import name_in
from catchment.pipelines.driving.driven_run import DrivenRun
from catchment.pipelines.driving.driver_options import DriverOptions
from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.supervision.run_file import read_run, write_run
from catchment.pipelines.errors import Mistakes
from catchment.pipelines.home import Home

_STANDARD_INPUT: Final = 0


def _watch_supervisor(run: DrivenRun) -> None:
    """The supervisor holds the other end of our standard input, and writes nothing to it."""

    def wait() -> None:
        while os.read(_STANDARD_INPUT, 1):
            pass
        run.ask_to_stop()

    threading.Thread(target=wait, name="supervisor", daemon=True).start()


def _refuse(options: DriverOptions, why: str) -> int:
    """Report it in the run file, which the supervisor's terminal shows; what we print may go only to a log."""
    try:
        home = Home(options.home, name_in(options.file))
    except Mistakes:
        sys.stderr.write(f"{why}\n")
    else:
        write_run(home, (read_run(home) or {}) | {"error": why})
    return ExitCode.CONFIGURATION


def main(arguments: Sequence[str]) -> int:
    options = DriverOptions.parse(arguments)
    try:
        run = DrivenRun(options)
    except Mistakes as mistakes:
        return _refuse(options, str(mistakes))
    except OSError as error:
        message = f"the status cannot be served on port {options.status_port}: {error.strerror}"
        return _refuse(options, f"{message}. Free it, or name another with --status-port.")

    def stop(*_: Any) -> None:
        run.ask_to_stop()

    signal.signal(signal.SIGTERM, stop)
    _watch_supervisor(run)
    return run.drive()


def log_to_standard_error() -> None:
    """Log to standard error, without py4j, which logs what it also raises, partly as the root logger."""
    handler = logging.StreamHandler()
    handler.addFilter(lambda record: Path(record.pathname).parent.name != "py4j")
    logging.basicConfig(level=logging.WARNING, format="%(asctime)s %(levelname)s %(message)s", handlers=[handler])


if __name__ == "__main__":
    log_to_standard_error()
    exit_code = main(sys.argv[1:])
    sys.stdout.flush()
    sys.stderr.flush()
    # PySpark threads that wait for a dead JVM would delay a normal exit.
    os._exit(exit_code)
