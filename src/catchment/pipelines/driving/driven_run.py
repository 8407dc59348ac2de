"""A run in the driver process: it builds the queries, keeps them running, reports on them, and ends everything in order."""

from __future__ import annotations

import os
import sys
import threading
import time
from dataclasses import asdict
from typing import Final

from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from catchment.pipelines.alerts.log_counts import LogCounts
from catchment.pipelines.alerts.notifier import Notifier
from catchment.pipelines.checks.owners import require_owner
from catchment.pipelines.declaration.addresses import brokers
from catchment.pipelines.declaration.loading import load
from catchment.pipelines.declaration.specification import StoreSink
from catchment.pipelines.driving.driver_options import DriverOptions
from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.failures import Failure, FailureKind, classify
from catchment.pipelines.driving.jvm import end_jvm, has_died, jvm_pid
from catchment.pipelines.driving.lineage import Lineage
from catchment.pipelines.driving.query_group import QueryGroup
from catchment.pipelines.driving.realtime_alerts import RealtimeProcess, realtime_alerts
from catchment.pipelines.driving.realtime_process import command as realtime_command
from catchment.pipelines.driving.restarting_query import RetryLimits
from catchment.pipelines.driving.status.log_end_offsets import LogEndOffsets
from catchment.pipelines.driving.status.model import RunStatus
from catchment.pipelines.driving.status.publisher import Publisher
from catchment.pipelines.driving.status.quarantine_counts import QuarantineCounts
from catchment.pipelines.driving.supervision.cleanup import RUN_VARIABLE, end_processes
from catchment.pipelines.driving.supervision.run_file import from_text, now_text, read_run
from catchment.pipelines.driving.supervision.stop_flag import StopFlag
from catchment.pipelines.execution.alerting import notifier
from catchment.pipelines.execution.claiming import ClaimsWatch
from catchment.pipelines.execution.run import Run, run_context
from catchment.pipelines.execution.session import carry_modules, pipeline_session, silence
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home
from catchment.pipelines.naming import alert_sink, sink_query
from catchment.pipelines.planning import decide, keep
from catchment.pipelines.realtime.eligibility import asking_alerts, notes, read_reasons
from catchment.spark.notices import stop_publishing
from catchment.spark.options.connection import Connection

_LOOK_S: Final = 0.5
_NEXT_LEVEL_S: Final = 0.1
"""How often a run with an end checks whether the next queries can be started: each level waits for the one before."""
_PUBLISH_S: Final = 1.0
_FIRST_PAUSE_S: Final = 0.5
_LONGEST_PAUSE_S: Final = 15.0
_COUNT_S: Final = 1.0
_REJECTED: Final = "rejected"
_LATE: Final = "late"
STOP_S: Final = 1.0
"""How long a run may take to end after a stop request. Killing it within a batch loses nothing: the next run repeats it."""
_LONG_S: Final = 3600.0
_END_S: Final = 10.0
"""How long any other run may take to end."""


class DrivenRun:
    """One run, from the start of Spark to the exit code."""

    def __init__(self, options: DriverOptions) -> None:
        loaded = load(options.file.resolve())
        carry_modules(loaded.folder)
        self._options = options
        self._loaded = loaded
        self._folder = loaded.folder
        self._graph = Graph(loaded.specification)
        self._home = Home(options.home, loaded.specification.pipeline)
        servers = brokers(loaded.specification, options.servers)
        self._lineage = Lineage(options.lineage, self._graph, servers, loaded.folder) if options.lineage else None
        self._stop = StopFlag()
        self._ends_with = int(ExitCode.DONE if options.is_endless else ExitCode.INTERRUPTED)
        realtime = realtime_alerts(loaded.specification, is_endless=options.is_endless)
        self._realtime = realtime.names
        self._elsewhere = {sink_query(alert_sink(name)) for name in realtime.names}
        self._realtime_process: RealtimeProcess | None = None
        patience = RetryLimits(away_s=options.patience_s)
        if realtime.names:
            command = realtime_command(options.file, options.home, options.master, options.servers)
            self._realtime_process = RealtimeProcess(command, patience)
        self._queries = QueryGroup(
            self._graph,
            self,
            is_endless=options.is_endless,
            patience=patience,
            without=self._elsewhere,
            since=from_text((read_run(self._home) or {}).get("started_at") or now_text()),
        )
        statuses = [*self._queries.statuses, *([self._realtime_process.status] if self._realtime_process else [])]
        self._status = RunStatus(self._home.pipeline, loaded.specification.version, statuses, notes=realtime.refusals)
        self._publisher = Publisher(self._home, self._status, options.status_port)
        self._run: Run | None = None

    def ask_to_stop(self) -> None:
        """For signal handlers and any thread: the process ends soon, whatever is under way."""
        self._stop.set()

    def drive(self) -> int:
        """Run everything, and return the exit code."""
        spark: SparkSession | None = None
        failure: Failure | None = None
        threading.Thread(target=self._end_when_asked, name="stop", daemon=True).start()
        try:
            self._publisher.publish()
            spark = pipeline_session(
                self._graph.specification, self._options.master, is_endless=self._options.is_endless
            )
            self._status.spark_pid = jvm_pid(spark)
            silence(spark)
            failure = self._build(spark) or self._watch()
        except Exception as error:
            # Errors of calls to Spark, and of its start, are classified like the failure of a query.
            failure = _classified(error)
        if failure is not None and spark is not None and has_died(spark):
            # Calls to a JVM that dies fail in many ways, and none of them says so.
            failure = Failure(FailureKind.SPARK_LOST, "Spark has ended", ExitCode.START_AGAIN)
        return self._end(spark, failure)

    def _build(self, spark: SparkSession) -> Failure | None:
        """Create topics and plans, with retries for as long as the brokers may be away."""
        deadline = time.monotonic() + self._options.patience_s
        pause_s = _FIRST_PAUSE_S
        while not self._stop.is_set():
            try:
                self._run = self._built(spark)
            except Exception as error:
                failure = classify(error, is_building=True)
                # A dead JVM refuses connections too, and does not come back as brokers do.
                if not failure.is_transient or time.monotonic() > deadline or has_died(spark):
                    return failure
                self._status.error = failure.message
                self._publisher.publish()
                self._stop.wait(pause_s)
                pause_s = min(pause_s * 2, _LONGEST_PAUSE_S)
            else:
                self._status.error = None
                return None
        return None

    def _built(self, spark: SparkSession) -> Run:
        """The queries, ready to start from the state that they may continue."""
        begins = require_owner(self._graph, self._folder, self._home, self._options.servers).begins
        with self._loaded.located():
            plan = decide(spark, self._graph, self._home, self._folder, begins)
        run = Run(
            run_context(
                spark,
                self._graph,
                home=self._home,
                folder=self._folder,
                servers=self._options.servers,
                versions=plan.versions,
                rows=plan.rows,
            )
        )
        run.build([name for level in self._graph.order for name in level if name not in self._elsewhere])
        keep(self._home, plan)
        return run

    def has_finished(self, name: str) -> bool:
        """Whether a query that has ended was done; for the query group."""
        return not self._options.is_endless and self._run is not None and self._run.has_finished(name)

    def stalled_s(self, name: str) -> float:
        """How long a query has waited for its store's answer; for the query group."""
        return self._run.context.store_calls.lasts_s(name) if self._run is not None else 0.0

    def start(self, name: str) -> StreamingQuery:
        """Start or restart a query; for the query group."""
        assert self._run is not None, "queries are started once they are built"
        query = self._run.start_query(name, available_now=not self._options.is_endless)
        if self._lineage is not None:
            self._lineage.started(name)
        return query

    def _watch(self) -> Failure | None:
        """Keep the queries running until they are done, one fails for good, or a stop is requested."""
        if (run := self._run) is None:
            return None
        self._status.phase = "running"
        connection = Connection.read(run.context.connection)
        # Opened before the first check, which starts the process of the real-time alerts.
        with (
            notifier(run.context) as notifications,
            LogEndOffsets(connection) as ends,
            LogCounts(connection, run.context.pipeline, self._realtime) as elsewhere,
            ClaimsWatch(run.context, run.claimed) as claims,
            QuarantineCounts(connection, _quarantine_topics(run.context.graph)) as quarantined,
        ):
            published_s = 0.0
            while not self._stop.is_set():
                failure = self._check()
                if claims.lost is not None:
                    failure = Failure(FailureKind.PERMANENT, claims.lost, ExitCode.REFUSED)
                self._note_alerts(run, notifications, elsewhere)
                is_done = failure is None and self._queries.is_done and notifications.has_finished()
                if failure is not None or is_done:
                    quarantined.catch_up(_COUNT_S)
                self._note_quarantined(quarantined)
                if failure is not None or is_done:
                    return failure
                if (now_s := time.monotonic()) - published_s > _PUBLISH_S:
                    self._queries.measure(ends)
                    self._publisher.publish()
                    published_s = now_s
                self._stop.wait(_LOOK_S if self._options.is_endless else _NEXT_LEVEL_S)
        return None

    def _note_quarantined(self, quarantined: QuarantineCounts) -> None:
        for status in self._queries.statuses:
            counts = quarantined.of(status.name)
            status.rejected, status.late = counts.get(_REJECTED, 0), counts.get(_LATE, 0)

    def _note_alerts(self, run: Run, notifications: Notifier, elsewhere: LogCounts) -> None:
        """Copy the counts of alerts and of notifications."""
        if not self._elsewhere:
            elsewhere.close()
        statuses = notifications.statuses
        self._status.troubles = [f"{one.name}: {one.trouble}" for one in statuses if one.trouble]
        self._status.notifications = {one.name: one.outcomes for one in statuses}
        # Alerts that real-time mode does not allow are decided, and counted, here.
        here = {name: asdict(counts) for name, counts in run.context.alert_counts.items()}
        self._status.alerts = elsewhere.outcomes | here
        if self._lineage is not None:
            self._status.lineage_lost = self._lineage.lost

    def _check(self) -> Failure | None:
        failure = self._queries.check()
        if failure is not None or self._realtime_process is None:
            return failure
        failure = self._realtime_process.check()
        if self._realtime_process.is_refused:
            self._go_on_without_real_time()
        return failure

    def _go_on_without_real_time(self) -> None:
        """Decide in micro-batches the alerts that real-time mode does not allow, and report why."""
        assert self._run is not None, "the process is checked once the queries are built"
        sinks = sorted(self._elsewhere)
        self._run.add(sinks)
        self._queries.add(sinks)
        self._elsewhere, self._realtime_process = set(), None
        self._status.queries = self._queries.statuses
        self._status.notes = notes(asking_alerts(self._graph.specification), read_reasons(self._home))

    def _end(self, spark: SparkSession | None, failure: Failure | None) -> int:
        """Stop the queries, then Spark, and report the outcome."""
        code = self._ends_with = self._exit_code(failure)
        self._status.phase = "stopping" if failure is None else "failed"
        self._status.error = failure.message if failure else None
        if code == ExitCode.START_AGAIN:
            self._status.phase = "starting"
        if self._lineage is not None:
            self._lineage.ended("COMPLETE" if failure is None else "FAIL", failure.message if failure else None)
            self._lineage.close()
            self._status.lineage_lost = self._lineage.lost
        self._publisher.publish()
        timer = threading.Timer(_END_S, self._end_by_force)
        timer.daemon = True
        timer.start()
        if self._realtime_process is not None:
            self._realtime_process.close()
        if spark is not None:
            _silence_stderr()
            end_jvm(spark, self._run)
            stop_publishing()
        self._publisher.close()
        return code

    def _exit_code(self, failure: Failure | None) -> int:
        if failure is not None:
            return failure.exit_code
        was_broken_off = not self._options.is_endless and not self._queries.is_done
        return ExitCode.INTERRUPTED if was_broken_off else ExitCode.DONE

    def _end_when_asked(self) -> None:
        """On its own thread: the main one may wait for a JVM that starts, or for a batch. A signal handler must not start a thread."""
        while not self._stop.wait(_LONG_S):
            pass
        if self._run is not None:
            time.sleep(STOP_S)
        self._end_by_force()

    def _end_by_force(self) -> None:
        """End the process with all others of the run: a JVM that hangs must not be left behind."""
        if run_id := os.environ.get(RUN_VARIABLE):
            end_processes(run_id)
        os._exit(self._ends_with)


def _quarantine_topics(graph: Graph) -> dict[str, str]:
    """The topics of quarantined and of late records."""
    has_source_stage = bool(graph.source_stages or graph.table_quarantines)
    has_store = any(isinstance(one.target, StoreSink) for one in graph.sinks.values())
    rejected = {_REJECTED: graph.quarantine} if has_source_stage or has_store else {}
    return rejected | ({_LATE: graph.late} if has_source_stage else {})


def _silence_stderr() -> None:
    """PySpark's threads print tracebacks when their JVM ends. Every error has been reported by now."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stderr.fileno())


def _classified(error: Exception) -> Failure:
    """An error outside of the queries: if it is transient, another driver tries again."""
    failure = classify(error)
    return failure._replace(exit_code=ExitCode.START_AGAIN) if failure.is_transient else failure
