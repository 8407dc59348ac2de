"""The progress of a run for people: a table that changes in place on a terminal, or a line every few seconds elsewhere."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self

from catchment.pipelines.driving.supervision.run_file import from_text

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

_LINE_S: Final = 5.0
_NONE: Final = "–"
Run = Mapping[str, Any]


class LivePanel:
    """For a terminal."""

    def __init__(self) -> None:
        self._closing = ExitStack()
        self._live: Live | None = None

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.live import Live

        self._live = self._closing.enter_context(Live(console=Console(stderr=True), auto_refresh=False))
        return self

    def show(self, run: Run) -> None:
        if self._live is not None:
            self._live.update(panel(run, datetime.now(UTC)), refresh=True)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._closing.close()


class Lines:
    """For a log: a line when the state changes, and every few seconds; each note once."""

    def __init__(self, write: Callable[[str], None], clock: Callable[[], float] = time.monotonic) -> None:
        self._write = write
        self._clock = clock
        self._written_s = float("-inf")
        self._state: str | None = None
        self._noted: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def show(self, run: Run) -> None:
        now_s = self._clock()
        for note in run.get("notes", ()):
            if note not in self._noted:
                self._noted.add(note)
                self._write(f"{run['pipeline']}: {note}")
        if run["state"] != self._state or now_s - self._written_s >= _LINE_S:
            self._state, self._written_s = run["state"], now_s
            self._write(line(run, datetime.now(UTC)))

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """There is nothing to restore."""


def line(run: Run, now: datetime) -> str:
    """The whole run on one line: the events that come in, and the slowest of each number."""
    queries = run.get("queries", ())
    if run["state"] == "starting":
        return f"{run['pipeline']}: {_starting(run, now)}"
    source_stages = [one for one in queries if one["kind"] == "intake"] or queries
    rate = sum(one["rows_per_s"] for one in source_stages)
    lag = sum(one["lag"] or 0 for one in queries)
    ages = [_age_s(one["watermark"], now) for one in queries if one["watermark"]]
    parts = [f"{run['pipeline']}: {run['state']}", f"{rate:,.0f} rows/s", f"lag {lag:,}"]
    parts += [f"watermark −{max(ages):,.0f} s"] if ages else []
    parts += [f"event→store {_latency(run.get('latency_ms'))}"] if run.get("latency_ms") else []
    parts += [*accounts(run), *alerts(run)]
    parts += [f"error: {run['error']}"] if run.get("error") else []
    return "   ".join([*parts, *(f"! {one}" for one in run.get("faults", ()))])


def panel(run: Run, now: datetime) -> RenderableType:
    """The run as a table, a line for each query."""
    from rich.console import Group
    from rich.markup import escape
    from rich.table import Table
    from rich.text import Text

    head = _starting(run, now) if run["state"] == "starting" else run["state"]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for name in ("query", "state"):
        table.add_column(name)
    for name in ("rows/s", "lag", "watermark", "batch", "event→store p50 · p99"):
        table.add_column(name, justify="right")
    for query in run.get("queries", ()):
        table.add_row(*(escape(cell) for cell in cells(query, now)))
    remarks = [Text(one) for one in (*accounts(run), *alerts(run))]
    remarks += [Text(one, style="dim") for one in run.get("notes", ())]
    remarks += [Text(f"! {one}", style="yellow") for one in run.get("faults", ())]
    if run.get("error"):
        remarks.append(Text(str(run["error"]), style="red"))
    title = Text.assemble((run["pipeline"], "bold"), f" version {run['version']}   ", (head, "green"))
    return Group(title, table, *remarks) if run.get("queries") else Group(title, *remarks)


def cells(query: Mapping[str, Any], now: datetime) -> list[str]:
    """One query's line of the table."""
    return [
        query["name"],
        f"waits for {query['waits_for']}" if query["waits_for"] else query["state"],
        f"{query['rows_per_s']:,.0f}",
        _NONE if query["lag"] is None else f"{query['lag']:,}",
        f"−{_age_s(query['watermark'], now):,.0f} s" if query["watermark"] else _NONE,
        _NONE if query["batch_ms"] is None else f"{query['batch_ms']:,} ms",
        "catching up" if query.get("is_catching_up") and not query["latency_ms"] else _latency(query["latency_ms"]),
    ]


def accounts(run: Run) -> list[str]:
    """Outcomes of the rows of each source."""
    sources = [one for one in run.get("sources", ()) if one["in"]]
    names = [one["source"] for one in sources]
    return [_account(one, is_alone=names.count(one["source"]) == 1) for one in sources] + [
        f"{one['name']} rejected {one['rejected']:,}"
        for one in run.get("queries", ())
        if one.get("rejected") and not one.get("source")
    ]


def _account(source: Mapping[str, Any], *, is_alone: bool) -> str:
    name = source["source"] if is_alone else f"{source['source']} for {source['query']}"
    parts = [f"{what} {source[what]:,}" for what in ("stored", "duplicate", "late", "rejected")]
    parts += [f"dropped {source['dropped']:,}"] if source["dropped"] else []
    return f"{name} in {source['in']:,} = {' + '.join(parts)}"


def alerts(run: Run) -> list[str]:
    """Outcomes of the candidates of each alert."""
    found = {
        name: [f"{count:,} {outcome.replace('_', ' ')}" for outcome, count in counts.items() if count]
        for name, counts in run.get("alerts", {}).items()
    }
    return [f"alert {name}: {', '.join(counts)}" for name, counts in found.items() if counts]


def summary(run: Run) -> list[str]:
    """The summary of a run that has ended: why, after how long, and the outcomes of its rows."""
    lasted = _lasted(run)
    lines = [f"{run['pipeline']}: {_reason(run)}{f' after {lasted}' if lasted else ''}"]
    counts = [*accounts(run), *alerts(run)]
    if counts and run.get("driver_starts", 1) > 1:
        counts.append(f"counted since the last of {run['driver_starts']} starts of Spark")
    return lines + [f"{run['pipeline']}: {one}" for one in counts]


def _reason(run: Run) -> str:
    if run["state"] == "failed":
        return f"failed with exit code {run['exit_code']}"
    asked_by = run.get("asked_by")
    if asked_by is None:
        return "all available rows are processed"
    return "stopped by Ctrl-C" if asked_by == "SIGINT" else f"stopped by {asked_by}"


def _lasted(run: Run) -> str | None:
    if "started_at" not in run or "ended_at" not in run:
        return None
    seconds = (from_text(run["ended_at"]) - from_text(run["started_at"])).total_seconds()
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(int(minutes), 60)
    long = [f"{hours} h"] if hours else []
    long += [f"{minutes} min"] if hours or minutes else []
    return " ".join([*long, f"{seconds:.0f} s" if long else f"{seconds:.1f} s"])


def _starting(run: Run, now: datetime) -> str:
    since = run.get("driver_started_at")
    timer = f" {_age_s(since, now):.0f} s" if since else ""
    again = f", start {run['driver_starts']}" if run.get("driver_starts", 1) > 1 else ""
    waits = f": {run['error']}" if run.get("error") else ""
    who = "the queries are" if run.get("spark_pid") else "Spark is"
    return f"{who} starting{timer}{again}{waits}"


def _age_s(timestamp: str, now: datetime) -> float:
    return (now - from_text(timestamp)).total_seconds()


def _latency(latency_ms: Mapping[str, float] | None) -> str:
    return " · ".join(f"{latency_ms[name] / 1000:.1f} s" for name in ("p50", "p99")) if latency_ms else _NONE
