"""What a pipeline says of itself, as the board takes it."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

from catchment.applications.running.observing import pipeline_view

_NOW = datetime(2026, 5, 1, 12, 0, 30, tzinfo=UTC)


def run_of(watermark: str | None) -> dict[str, Any]:
    queries = [
        {"kind": "intake", "watermark": watermark},
        {"kind": "outlet", "watermark": "2026-05-01T11:00:00.000Z"},
    ]
    return {
        "state": "running",
        "driver_starts": 2,
        "driver_started_at": "2026-05-01T12:00:20.000Z",
        "latency_ms": {"p50": 900.0, "p99": 2_500.0},
        "faults": ["x"],
        "queries": queries,
    }


def test_a_pipeline_that_has_said_nothing_yet_is_starting() -> None:
    assert pipeline_view({}, _NOW).state == "starting"
    assert pipeline_view({}, _NOW).watermark_age_s is None


def test_the_watermark_is_that_of_the_intake() -> None:
    view = pipeline_view(run_of("2026-05-01T12:00:10.000Z"), _NOW)
    assert view.watermark_age_s == 20
    assert (view.latency_p50_s, view.latency_p99_s) == (0.9, 2.5)
    assert view.starts == 2
    assert view.starting_for_s == 10
    assert view.faults == ("x",)


def test_a_watermark_of_1970_is_none() -> None:
    assert pipeline_view(run_of("1970-01-01T00:00:00.000Z"), _NOW).watermark_age_s is None
    assert pipeline_view(run_of(None), _NOW).watermark_age_s is None
