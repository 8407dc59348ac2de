"""A thread that reads the state of everything about once a second and makes a snapshot of it for the board.

It has its own connections, so that a broker that is down delays neither the board nor its keys.
"""

from __future__ import annotations

import sqlite3
import threading
import time
from collections import deque
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pyarrow
from deltalake import DeltaTable
from deltalake.exceptions import TableNotFoundError
from pyarrow import compute

from catchment.applications.catalogue import board_table_of
from catchment.applications.running.account import Account, Command
from catchment.applications.running.board_table import TableReader, TableView
from catchment.applications.running.layout import Layout
from catchment.applications.running.reconciling import differences
from catchment.applications.running.snapshot import PipelineView, Response, Snapshot
from catchment.client.errors import ClientError
from catchment.pipelines.driving.supervision.run_file import read_run

_PERIOD_S: Final = 1.0
_RATE_SAMPLES: Final = 6
_HISTORY: Final = 120
_STORE_SHARE: Final = 0.1
"""How much of the time may be spent on reading the store, which grows."""
_EPOCH_S: Final = 86_400.0
"""A watermark of the first day of 1970 is one that has not begun."""


class Observer:
    """Looks at a running application until it is closed."""

    def __init__(self, layout: Layout, servers: str) -> None:
        self._layout = layout
        self._account = Account(layout, servers)
        self._lake = LakeCount(layout.lake) if layout.lake else None
        self._began_s = time.monotonic()
        self._table = TableReader(layout.store, board_table_of(layout.name)) if layout.store else None
        self._read_table_from_s = 0.0
        self._samples: deque[tuple[float, int]] = deque(maxlen=_RATE_SAMPLES)
        self._rates: deque[float] = deque(maxlen=_HISTORY)
        self._lags: deque[float] = deque(maxlen=_HISTORY)
        self._latencies_s: deque[float] = deque(maxlen=_HISTORY)
        self._changed = threading.Condition()
        self._looks = 0
        self._looking = threading.Lock()
        self._is_closed = threading.Event()
        self._error: BaseException | None = None
        self.is_broker_away = False
        self.snapshot = Snapshot(layout.source, 0.0)
        self._thread = threading.Thread(target=self._work, name="observer", daemon=True)
        self._thread.start()

    def differences(self) -> list[str]:
        """What does not add up between ledger, log and stores just now. Raises `ClientError` where the broker is down."""
        with self._looking:
            return differences(self._account, self._layout)

    def next_look(self, timeout_s: float) -> Snapshot | None:
        """A snapshot that was begun after this was called; None if there is none in time."""
        with self._changed:
            # The look that is under way may have begun before.
            wanted = self._looks + 2
            is_there = self._changed.wait_for(lambda: self._looks >= wanted or self._error is not None, timeout_s)
        return self.seen() if is_there else None

    def seen(self) -> Snapshot:
        """The last snapshot. Raises what has stopped the observer."""
        if self._error is not None:
            raise self._error
        return self.snapshot

    def close(self) -> None:
        self._is_closed.set()
        self._thread.join()
        self._account.close()

    def _work(self) -> None:
        try:
            while not self._is_closed.is_set():
                began_s = time.monotonic()
                with self._looking:
                    self._look()
                with self._changed:
                    self._looks += 1
                    self._changed.notify_all()
                self._is_closed.wait(max(0.05, _PERIOD_S - (time.monotonic() - began_s)))
        except BaseException as error:
            self._error = error
            with self._changed:
                self._changed.notify_all()

    def _look(self) -> None:
        try:
            self._account.refresh()
            self.is_broker_away = False
        except ClientError:
            # It was killed, most likely by a key of the board. Nothing is lost: the next look continues from here.
            self.is_broker_away = True
        account, now_s = self._account, time.monotonic()
        totals = account.totals
        pipeline = pipeline_view(read_run(self._layout.home) or {}, datetime.now(UTC))
        if not self.is_broker_away:
            self._samples.append((now_s, totals.arrived + account.foreign))
        rate = _rate(self._samples)
        self._rates.append(0.0 if self.is_broker_away else rate)
        self._lags.append(account.lag)
        if pipeline.latency_p50_s is not None:
            self._latencies_s.append(pipeline.latency_p50_s)
        self.snapshot = Snapshot(
            source=self._layout.source,
            elapsed_s=now_s - self._began_s,
            rate=rate,
            lag=account.lag,
            totals=totals,
            is_even=account.balance.is_even,
            faults=tuple(account.balance.faults),
            foreign=account.foreign,
            lake_rows=self._lake.rows() if self._lake else None,
            table=self._store_table(),
            rates=tuple(self._rates),
            lags=tuple(self._lags),
            latencies_s=tuple(self._latencies_s),
            responses=tuple(_response(one) for one in account.commands.values()),
            pipeline=pipeline,
        )

    def _store_table(self) -> TableView | None:
        began_s = time.monotonic()
        if self._table is None or began_s < self._read_table_from_s:
            return self.snapshot.table
        try:
            return self._table.read()
        except sqlite3.Error:
            # The pipeline may be creating the table just now. The check at the end reports such errors.
            return self.snapshot.table
        finally:
            ended_s = time.monotonic()
            self._read_table_from_s = ended_s + (ended_s - began_s) * (1 / _STORE_SHARE - 1)


class LakeCount:
    """The rows of a Delta table, by what its log says of its files: the data is not read."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._table: DeltaTable | None = None

    def rows(self) -> int | None:
        """None before the first commit."""
        try:
            if self._table is None:
                self._table = DeltaTable(self._path)
            else:
                self._table.update_incremental()
        except TableNotFoundError:
            return None
        counts = pyarrow.table(self._table.get_add_actions(flatten=True)).column("num_records")
        return int(compute.sum(counts).as_py() or 0)


def pipeline_view(run: dict[str, Any], now: datetime) -> PipelineView:
    """The part of a pipeline's run file that the board shows."""
    latency_ms = run.get("latency_ms") or {}
    queries, started = run.get("queries", ()), run.get("driver_started_at")
    source_stages = [one for one in queries if one["kind"] == "intake"]
    watermarks = [datetime.fromisoformat(one["watermark"]) for one in source_stages if one["watermark"]]
    begun = [one for one in watermarks if one.timestamp() > _EPOCH_S]
    return PipelineView(
        state=str(run.get("state", "starting")),
        starts=int(run.get("driver_starts", 0)),
        starting_for_s=(now - datetime.fromisoformat(started)).total_seconds() if started else None,
        watermark_age_s=(now - min(begun)).total_seconds() if begun else None,
        is_idle=run.get("state") == "running" and bool(queries) and all(one["lag"] == 0 for one in queries),
        latency_p50_s=latency_ms["p50"] / 1000 if "p50" in latency_ms else None,
        latency_p99_s=latency_ms["p99"] / 1000 if "p99" in latency_ms else None,
        faults=tuple(run.get("faults", ())),
    )


def _response(command: Command) -> Response:
    if command.acted_at_s is None:
        return Response(command.name, command.message, command.acted)
    acted_at = datetime.fromtimestamp(command.acted_at_s, UTC).astimezone()
    return Response(command.name, command.message, command.acted, f"{acted_at:%H:%M:%S}")


def _rate(samples: deque[tuple[float, int]]) -> float:
    if len(samples) < 2:
        return 0.0
    (first_s, first), (last_s, last) = samples[0], samples[-1]
    return (last - first) / max(last_s - first_s, 1e-3)
