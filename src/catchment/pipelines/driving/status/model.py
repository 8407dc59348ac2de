"""The status of a run, in one form for the run file, HTTP, the metrics and the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final, Literal

from catchment.pipelines.driving.supervision.run_file import now_text

QueryKind = Literal["intake", "step", "outlet"]
QueryState = Literal["starting", "running", "waiting", "done", "stopped", "failed"]
_CATCHING_UP_S: Final = 5.0
"""A query that has more to read than it reads in this time is behind."""


@dataclass
class QueryStatus:
    """One query, as its last batch and its last failure left it."""

    name: str
    kind: QueryKind
    state: QueryState = "starting"
    waits_for: str | None = None
    """What is away: `store sqlite:///city.db`, `the brokers`."""
    rows: int = 0
    """Rows read since the driver started."""
    rows_per_s: float = 0.0
    lag: int | None = None
    """Records that are in the topics and not processed yet."""
    watermark: str | None = None
    batch_id: int | None = None
    batch_ms: int | None = None
    latency_ms: dict[str, float] | None = None
    """From the time of an event to the moment when its row was stored: `p50`, `p99`. Only for sinks of streams with event time."""
    is_real_time: bool = True
    """Whether rows are written as soon as they come; a lake is written at intervals."""
    is_catching_up: bool = False
    """Whether most rows of the last batch are of events before the run, whose latency means nothing."""
    source: str | None = None
    """The source that a source stage reads."""
    rows_out: int = 0
    """Rows that a source stage has written: to its topic, to the quarantine and to the topic of late rows."""
    duplicates: int = 0
    rejected: int = 0
    """Records that it has written to the quarantine."""
    late: int = 0
    dropped_rows: int = 0
    """Rows that Spark itself dropped as late: any are a fault."""
    held_back_by: list[str] = field(default_factory=list)
    """Topics that have nothing new, so that the watermark of a join waits for them."""
    overdue: str | None = None
    """A description of a batch that takes far longer than the last one did."""
    restarts: int = 0
    last_error: str | None = None


@dataclass
class RunStatus:
    """A whole run."""

    pipeline: str
    version: int
    queries: list[QueryStatus]
    phase: Literal["starting", "running", "stopping", "failed"] = "starting"
    error: str | None = None
    notes: tuple[str, ...] = ()
    """Where the run differs from what the pipeline's file asks for, and why."""
    troubles: list[str] = field(default_factory=list)
    """Problems with the delivery of notifications."""
    alerts: dict[str, dict[str, int]] = field(default_factory=dict)
    """Outcomes of the candidates of each alert."""
    notifications: dict[str, dict[str, int]] = field(default_factory=dict)
    """Outcomes of the alerts for each webhook and mail address."""
    lineage_lost: int = 0
    """Events of lineage that were not delivered."""
    spark_pid: int | None = None
    address: str | None = None

    @property
    def state(self) -> str:
        """The state for people to read: problems come first."""
        if self.phase != "running":
            return self.phase
        waits_for = sorted({one.waits_for for one in self.queries if one.waits_for})
        if waits_for:
            return f"waiting for {', '.join(waits_for)}"
        if all(one.state == "starting" for one in self.queries):
            return "starting"
        return "catching up" if any(is_behind(one) for one in self.queries) else "running"

    @property
    def faults(self) -> list[str]:
        """Problems of a pipeline that runs."""
        found = [
            f"{one.name}: Spark dropped {one.dropped_rows} rows as late that its source stage had let through"
            for one in self.queries
            if one.dropped_rows
        ]
        found += [f"{one.name}: {one.last_error}" for one in self.queries if one.state == "waiting" and one.last_error]
        found += [f"{one.name}: {one.overdue}" for one in self.queries if one.overdue]
        for one in self.queries:
            found += [
                f"{one.name}: nothing new in topic {topic} holds back its watermark" for topic in one.held_back_by
            ]
        return [*found, *self.troubles]

    @property
    def sources(self) -> list[dict[str, Any]]:
        """Outcomes of the rows of each source since the driver started."""
        return [_account(one) for one in self.queries if one.source is not None]

    def as_json(self) -> dict[str, Any]:
        return {
            "pipeline": self.pipeline,
            "version": self.version,
            "state": self.state,
            "error": self.error,
            "faults": self.faults,
            "notes": list(self.notes),
            "latency_ms": worst_latency(self.queries),
            "sources": self.sources,
            "alerts": self.alerts,
            "notifications": self.notifications,
            "lineage_lost": self.lineage_lost,
            "spark_pid": self.spark_pid,
            "address": self.address,
            "updated_at": now_text(),
            "queries": [asdict(one) for one in self.queries],
        }


def is_behind(query: QueryStatus) -> bool:
    """Whether a query lags by more than a few seconds of its own rate."""
    return query.state == "running" and (query.lag or 0) > max(query.rows_per_s, 1.0) * _CATCHING_UP_S


def _account(query: QueryStatus) -> dict[str, Any]:
    """Every input row is in exactly one of these counts. Quarantined records are counted a moment after they are written."""
    stored = max(0, query.rows_out - query.rejected - query.late)
    return {
        "source": query.source,
        "query": query.name,
        "in": query.rows,
        "stored": stored,
        "duplicate": query.duplicates,
        "late": query.late,
        "rejected": query.rejected,
        "dropped": max(0, query.rows - query.rows_out - query.duplicates),
    }


def worst_latency(queries: Sequence[QueryStatus]) -> dict[str, float] | None:
    """The latency of the slowest sink; of a lake only if there is no other sink, because a lake is written at intervals."""
    real_time = [one for one in queries if one.latency_ms is not None and one.is_real_time]
    known = [one.latency_ms for one in real_time or queries if one.latency_ms is not None]
    return {name: max(one[name] for one in known) for name in ("p50", "p99")} if known else None
