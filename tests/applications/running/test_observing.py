"""What a pipeline reports of itself, as the board shows it."""

from __future__ import annotations

import threading
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from catchment.applications.running import observing
from catchment.applications.running.account import Account
from catchment.applications.running.layout import lay_out
from catchment.applications.running.observing import Observer, pipeline_view

_NOW = datetime(2026, 5, 1, 12, 0, 30, tzinfo=UTC)


def run_of(watermark: str | None, outlet_lag: int = 0) -> dict[str, Any]:
    queries = [
        {"kind": "intake", "watermark": watermark, "lag": 0},
        {"kind": "outlet", "watermark": "2026-05-01T11:00:00.000Z", "lag": outlet_lag},
    ]
    return {
        "state": "running",
        "driver_starts": 2,
        "driver_started_at": "2026-05-01T12:00:20.000Z",
        "latency_ms": {"p50": 900.0, "p99": 2_500.0},
        "faults": ["x"],
        "queries": queries,
    }


def test_a_pipeline_is_idle_once_every_query_has_processed_all() -> None:
    assert pipeline_view(run_of(None), _NOW).is_idle
    assert not pipeline_view(run_of(None, outlet_lag=1), _NOW).is_idle
    assert not pipeline_view({**run_of(None), "state": "starting"}, _NOW).is_idle
    assert not pipeline_view({**run_of(None), "queries": []}, _NOW).is_idle


def test_a_pipeline_without_a_report_is_starting() -> None:
    assert pipeline_view({}, _NOW).state == "starting"
    assert pipeline_view({}, _NOW).watermark_age_s is None


def test_the_watermark_is_that_of_the_source_stage() -> None:
    view = pipeline_view(run_of("2026-05-01T12:00:10.000Z"), _NOW)
    assert view.watermark_age_s == 20
    assert (view.latency_p50_s, view.latency_p99_s) == (0.9, 2.5)
    assert view.starts == 2
    assert view.starting_for_s == 10
    assert view.faults == ("x",)


def test_a_watermark_of_1970_is_none() -> None:
    assert pipeline_view(run_of("1970-01-01T00:00:00.000Z"), _NOW).watermark_age_s is None
    assert pipeline_view(run_of(None), _NOW).watermark_age_s is None


class HeldUpAccount(Account):
    """One whose broker answers when it is allowed to."""

    may_answer = threading.Event()

    def refresh(self) -> None:
        self.may_answer.wait()


def test_a_snapshot_that_is_not_ready_in_time_is_none_and_not_the_last_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observing, "Account", HeldUpAccount)
    with closing(Observer(lay_out("emergency", tmp_path), "127.0.0.1:1")) as observer:
        try:
            assert observer.next_look(0.01) is None
        finally:
            HeldUpAccount.may_answer.set()
        assert observer.next_look(60.0) is not None
