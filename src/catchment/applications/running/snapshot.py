"""What the board shows of one moment, in plain values: the observer creates it and the board draws it."""

from __future__ import annotations

from dataclasses import dataclass, field

from catchment.applications.running.balance import Totals
from catchment.applications.running.board_table import TableView


@dataclass(frozen=True)
class Response:
    """An alert, and what was done about it."""

    name: str
    message: str
    acted: str | None
    acted_at: str = ""
    """The time of day of the acknowledgement."""


@dataclass(frozen=True)
class PipelineView:
    """What the pipeline reports of itself."""

    state: str = "starting"
    starts: int = 0
    """How many times Spark was started."""
    starting_for_s: float | None = None
    """How long ago the last start was, while it lasts."""
    watermark_age_s: float | None = None
    """How far the watermark is behind the clock."""
    is_idle: bool = False
    """Whether every query, those of stores and alerts too, has processed all that is there for it."""
    latency_p50_s: float | None = None
    latency_p99_s: float | None = None
    faults: tuple[str, ...] = ()


@dataclass(frozen=True)
class Snapshot:
    """One moment of a running application."""

    source: str
    elapsed_s: float
    rate: float = 0.0
    """Records that reached the log in each of the last seconds."""
    lag: int = 0
    totals: Totals = field(default_factory=Totals)
    is_even: bool = True
    faults: tuple[str, ...] = ()
    foreign: int = 0
    lake_rows: int | None = None
    table: TableView | None = None
    """The first table of the real-time store; None before it exists."""
    rates: tuple[float, ...] = ()
    """About one a second, the newest last; so are the next two."""
    lags: tuple[float, ...] = ()
    latencies_s: tuple[float, ...] = ()
    responses: tuple[Response, ...] = ()
    """The newest last."""
    pipeline: PipelineView = field(default_factory=PipelineView)
    news: str = ""
    """What is happening just now: Spark is starting, the broker is away."""
