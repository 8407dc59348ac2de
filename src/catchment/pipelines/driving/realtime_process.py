"""The process that runs a pipeline's real-time alerts in a session of their own.

It runs until it gets a signal, its standard input ends, or one of its queries does. When its queries run it reports that on its
standard output, where nothing else is written. Errors are on its standard error, for the driver. A restart continues from the
checkpoints. Where real-time mode is not allowed, or not available, it writes the reasons to the
pipeline's folder and returns `NOT_ALLOWED`.
"""

from __future__ import annotations

import argparse
import os
import re
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from catchment.client.errors import ClientError, SettingsError
from catchment.pipelines.declaration.addresses import broker_settings, brokers
from catchment.pipelines.declaration.loading import Loaded, load
from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.failures import Failure, FailureKind, classify
from catchment.pipelines.driving.jvm import end_jvm
from catchment.pipelines.driving.supervision.stop_flag import StopFlag
from catchment.pipelines.errors import Mistakes
from catchment.pipelines.execution.run import run_context
from catchment.pipelines.execution.session import carry_modules
from catchment.pipelines.execution.spark_errors import cause_of, text_of
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home
from catchment.pipelines.planning import kept_versions
from catchment.pipelines.realtime.connector_settings import connector_options
from catchment.pipelines.realtime.eligibility import NOT_ALLOWED, asking_alerts, write_reasons
from catchment.pipelines.realtime.plan_check import NotInRealTime, refusal_of_spark
from catchment.pipelines.realtime.running import realtime_session, start_all
from catchment.spark.launch.connector_jars import JarsUnavailable

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery

_MODULE: Final = "catchment.pipelines.driving.realtime_process"
_LOOK_S: Final = 0.5
_STANDARD_INPUT: Final = 0
_STANDARD_OUTPUT: Final = 1
_STANDARD_ERROR: Final = 2
RUNNING: Final = b"running\n"
_BROKERS_AWAY: Final = re.compile(r"org\.apache\.kafka\.common\.errors\.(Timeout|Disconnect|Network)Exception")
"""The Java client's errors for brokers that do not answer."""


def command(file: Path, home: Path, master: str, servers: str | None) -> list[str]:
    """The command that starts such a process."""
    arguments = ["--home", str(home), "--master", master, *(["--servers", servers] if servers else [])]
    return [sys.executable, "-m", _MODULE, *arguments, str(file)]


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(
        prog=_MODULE, description="The real-time alerts of a pipeline, in a session of their own."
    )
    parser.add_argument("file", type=Path)
    parser.add_argument("--home", type=Path, required=True)
    parser.add_argument("--master", default="local[*]")
    parser.add_argument("--servers")
    given = parser.parse_args(arguments)
    stopping = StopFlag()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    threading.Thread(target=_await_end_of_input, args=(stopping,), daemon=True).start()
    report = os.dup(_STANDARD_OUTPUT)
    # Output of Spark and of the functions of stages goes to the log.
    os.dup2(_STANDARD_ERROR, _STANDARD_OUTPUT)
    try:
        return _run(given, stopping, report)
    except (Mistakes, ClientError) as error:
        sys.stderr.write(f"{error}\n")
        return classify(error).exit_code


def _run(given: argparse.Namespace, stopping: StopFlag, report: int) -> int:
    loaded = load(given.file.resolve())
    carry_modules(loaded.folder)
    specification = loaded.specification
    home = Home(given.home, specification.pipeline)
    try:
        return _run_alerts(given, loaded, home, stopping, report)
    except NotInRealTime as error:
        reasons = {error.alert: error.reasons}
        cause: ClientError = error
    except (JarsUnavailable, SettingsError) as error:
        # Settings that micro-batches accept may not work here.
        reasons = {name: [str(error)] for name in asking_alerts(specification)}
        cause = error
    write_reasons(home, reasons)
    sys.stderr.write(f"{cause}\n")
    return NOT_ALLOWED


def _run_alerts(given: argparse.Namespace, loaded: Loaded, home: Home, stopping: StopFlag, report: int) -> int:
    specification = loaded.specification
    servers = brokers(specification, given.servers)
    connection = {"kafka.bootstrap.servers": servers} | {
        f"kafka.{name}": one for name, one in broker_settings(specification).items()
    }
    # Settings without a Java counterpart are reported before Spark starts.
    connector_options(connection)
    spark = realtime_session(specification, given.master, connection)
    # A query that is stopped on purpose interrupts its tasks, which is no error.
    spark.sparkContext.setLogLevel("OFF")
    try:
        # The driver has recorded which state the alerts may continue.
        versions = kept_versions(home, specification.version)
        queries = start_all(
            run_context(
                spark, Graph(specification), home=home, folder=loaded.folder, servers=servers, versions=versions
            )
        )
        with suppress(BrokenPipeError):
            # A driver that is gone has closed the input too.
            os.write(report, RUNNING)
        failure = _watch(queries, stopping)
        for query in queries.values():
            query.stop()
    finally:
        end_jvm(spark, None)
    if failure is None:
        return ExitCode.DONE
    sys.stderr.write(f"{failure.message}\n")
    return failure.exit_code


def _watch(queries: dict[str, StreamingQuery], stopping: StopFlag) -> Failure | None:
    """Wait until a query fails or a stop is requested; raises NotInRealTime if Spark's own check failed."""
    while not stopping.wait(_LOOK_S):
        for name, query in queries.items():
            if not query.isActive:
                error = query.exception()
                if error is not None and (reason := refusal_of_spark(error)) is not None:
                    raise NotInRealTime(name, [reason])
                return failure_of(name, error)
    return None


def failure_of(name: str, error: BaseException | None) -> Failure:
    """The failure of an alert's query. Any of them may be cured by a restart."""
    if error is None:
        return Failure(FailureKind.WORK_LOST, f"alert {name} has ended without an error", ExitCode.FAILED)
    message = f"alert {name} has ended: {cause_of(error)}"
    if _BROKERS_AWAY.search(text_of(error)):
        return Failure(FailureKind.BROKERS_AWAY, message, ExitCode.AWAY)
    return Failure(FailureKind.WORK_LOST, message, ExitCode.FAILED)


def _await_end_of_input(stopping: StopFlag) -> None:
    """The driver holds the other end, and writes nothing to it."""
    while os.read(_STANDARD_INPUT, 1):
        pass
    stopping.set()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
