"""How a run fares: one form for the run file, the address that serves it, the metrics and the terminal."""

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
    """From the time of an event to the moment when its row was stored: `p50`, `p99`. Outlets of streams with event time alone."""
    is_real_time: bool = True
    """Whether rows go on as soon as they come; a lake is written now and then."""
    is_catching_up: bool = False
    """Whether most rows of the last batch are of events before the run, whose latency says nothing."""
    source: str | None = None
    """What a query reads that takes a source in."""
    rows_out: int = 0
    """Rows that such a query has written: to the topic of its stage, to the quarantine and to the late ones."""
    duplicates: int = 0
    rejected: int = 0
    """Records that it has put into the quarantine."""
    late: int = 0
    dropped_rows: int = 0
    """Rows that Spark dropped as late behind our back: more than none is a fault."""
    held_back_by: list[str] = field(default_factory=list)
    """Topics that have nothing new, so that the watermark of a join waits for them."""
    overdue: str | None = None
    """What there is to say of a batch that takes far longer than the last one did."""
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
    """What is done otherwise than the pipeline's file asks for, and why."""
    troubles: list[str] = field(default_factory=list)
    """What is in the way of telling people of alerts."""
    alerts: dict[str, dict[str, int]] = field(default_factory=dict)
    """What has become of the candidates of each alert."""
    notifications: dict[str, dict[str, int]] = field(default_factory=dict)
    """What has become of the alerts for each webhook and address for mail."""
    lineage_lost: int = 0
    """Events of lineage that nobody was told of."""
    spark_pid: int | None = None
    address: str | None = None

    @property
    def state(self) -> str:
        """In the words that people read: what is not well comes first."""
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
        """What should not be, though the pipeline runs."""
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
        """What became of the rows of each source since the driver started."""
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
    """Whether a query has more to do than a moment's worth."""
    return query.state == "running" and (query.lag or 0) > max(query.rows_per_s, 1.0) * _CATCHING_UP_S


def _account(query: QueryStatus) -> dict[str, Any]:
    """Every row that came in is in one of these, and in no other. What is kept aside is counted a moment after it is written."""
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
    """That of the slowest sink, but of a lake only where there is nothing else: it waits on purpose."""
    real_time = [one for one in queries if one.latency_ms is not None and one.is_real_time]
    known = [one.latency_ms for one in real_time or queries if one.latency_ms is not None]
    return {name: max(one[name] for one in known) for name in ("p50", "p99")} if known else None
