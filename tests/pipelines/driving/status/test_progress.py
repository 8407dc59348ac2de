"""What Spark reports of batches, as the status of a query."""

from __future__ import annotations

from datetime import timedelta
from random import Random
from typing import Any

import pytest
from tests.pipelines.driving.reports_of_spark import START, batch, moment, source

from catchment.pipelines.driving.status.model import QueryKind, QueryStatus, RunStatus
from catchment.pipelines.driving.status.progress import Latency, ProgressReader


def reader(kind: QueryKind = "step") -> ProgressReader:
    return ProgressReader(QueryStatus("q", kind), {"city.reports-input": "reports"})


def test_the_lag_is_what_was_there_and_not_processed() -> None:
    one = reader()

    one.read(batch(3, source("a", rows=10, end=40, latest=100), source("b", rows=0, end=5, latest=5)), 0.0)

    assert one.status.lag == 60
    assert one.status.rows == 10
    assert (one.status.batch_id, one.status.batch_ms) == (3, 1000)


def test_the_lag_grows_with_the_topics_while_a_query_reports_nothing() -> None:
    one = reader()
    one.measure({("a", 0): 7}, 0.0)
    assert one.status.lag is None

    one.read(batch(3, source("a", rows=10, end=40, latest=40)), 0.0)
    one.measure({("a", 0): 90, ("b", 0): 7}, 1.0)

    assert one.places == [("a", 0)]
    assert one.status.lag == 50


def test_the_rate_is_that_of_the_last_seconds_however_batches_fall() -> None:
    one = reader()
    for second in range(30):
        one.read(batch(second, source("a", rows=100, end=second, latest=second)), float(second))
        # Spark checks again right after a batch, finds nothing, and reports that.
        one.read(batch(second, source("a", rows=0, end=second, latest=second)), second + 0.2)
    assert one.status.rows_per_s == pytest.approx(100, rel=0.1)

    one.measure({}, 60.0)
    assert one.status.rows_per_s == 0


def test_a_source_of_another_kind_has_no_lag_and_does_no_harm() -> None:
    one = reader()

    one.read(batch(0, {"description": "rate", "numInputRows": 1, "endOffset": 5, "latestOffset": 9}), 0.0)

    assert one.status.lag is None


def test_the_watermark_is_none_until_spark_has_one() -> None:
    one = reader()
    one.read(batch(0, eventTime={"watermark": "1970-01-01T00:00:00.000Z"}), 0.0)
    assert one.status.watermark is None

    one.read(batch(1, eventTime={"watermark": moment(7)}), 1.0)
    assert one.status.watermark == moment(7)


def test_rows_that_spark_drops_are_a_fault_of_the_run() -> None:
    one = reader()

    one.read(batch(0, stateOperators=[{"numRowsDroppedByWatermark": 2}, {"numRowsDroppedByWatermark": 1}]), 0.0)

    [fault] = RunStatus("city", 1, [one.status]).faults
    assert "q: Spark dropped 3 rows" in fault


def test_an_input_with_nothing_new_is_named_by_the_topic_that_people_know() -> None:
    one = reader()
    for number in range(12):
        rows = source("traffic", rows=5, end=number, latest=number)
        one.read(batch(number, rows, source("city.reports-input", rows=0, end=0, latest=0)), float(number))

    assert one.status.held_back_by == ["reports"]
    assert "topic reports holds back" in RunStatus("city", 1, [one.status]).faults[0]

    one.read(
        batch(13, source("traffic", rows=5, end=9, latest=9), source("city.reports-input", rows=1, end=1, latest=1)),
        13.0,
    )
    assert one.status.held_back_by == []


def test_nothing_is_held_back_where_nothing_comes_at_all() -> None:
    one = reader()
    for number in range(30):
        one.read(
            batch(number, source("a", rows=0, end=1, latest=1), source("b", rows=0, end=1, latest=1)), float(number)
        )

    assert one.status.held_back_by == []


def event_times(*seconds: float) -> dict[str, Any]:
    """What Spark observes of a batch whose events happened at these moments after the start."""
    points = [round((START.timestamp() + one) * 1000) for one in seconds]
    return {"event_times.clean": {"rows": 100, "points_ms": points}}


def test_latency_ends_when_the_rows_are_stored_and_not_when_the_batch_does() -> None:
    one = reader("outlet")

    one.read(batch(0, source("a", rows=100, end=1, latest=1), at_s=10.0, observedMetrics=event_times(8.0)), 0.0)

    # Begun at 10 s, stored at 10.9 s.
    assert one.status.latency_ms is not None
    assert one.status.latency_ms["p50"] == pytest.approx(2900)


def test_quantiles_are_those_of_all_rows_and_not_of_the_batches() -> None:
    """A few slow rows among many: a mean of batches would hide them, and one of a small slow batch would exaggerate it."""
    latency = Latency()
    random = Random(7)
    rows: list[float] = []
    for second in range(30):
        stored = START + timedelta(seconds=second)
        count = random.choice([10, 200, 1000])
        ages_ms = sorted(random.lognormvariate(6, 1) + (5000 if second % 10 == 0 else 0) for _ in range(count))
        rows += ages_ms
        times_ms = [stored.timestamp() * 1000 - one for one in reversed(ages_ms)]
        latency.add(stored, count, [times_ms[round(number / 100 * (count - 1))] for number in range(101)])

    found = latency.quantiles()

    rows.sort()
    assert found is not None
    for name, share in (("p50", 0.5), ("p99", 0.99)):
        near = [rows[round((share + error) * (len(rows) - 1))] for error in (-0.01, min(0.01, 0.999 - share))]
        assert near[0] <= found[name] <= near[1], name


def test_events_of_before_the_run_are_a_catch_up_and_no_latency() -> None:
    """Of half a year ago, where the status once said 22,572,308 s."""
    one = ProgressReader(QueryStatus("q", "outlet"), since=START)

    one.read(batch(0, source("a", rows=100, end=1, latest=1), observedMetrics=event_times(-2e7, -2e7, -5)), 0.0)
    assert (one.status.latency_ms, one.status.is_catching_up) == (None, True)

    one.read(
        batch(1, source("a", rows=100, end=2, latest=2), at_s=10.0, observedMetrics=event_times(-1, 8.9, 8.9)), 1.0
    )
    assert one.status.latency_ms == pytest.approx({"p50": 2000, "p99": 2000})
    assert not one.status.is_catching_up


def test_an_event_ahead_of_the_clock_has_no_negative_latency() -> None:
    latency = Latency()
    latency.add(START, 1, [START.timestamp() * 1000 + 9000])
    assert latency.quantiles() == {"p50": 0.0, "p99": 0.0}


def test_latency_forgets_what_is_older_than_a_minute() -> None:
    latency = Latency()
    latency.add(START, 10_000, [START.timestamp() * 1000 - 50_000])
    later = START + timedelta(seconds=61)

    latency.add(later, 1, [later.timestamp() * 1000])

    assert latency.quantiles() == {"p50": 0.0, "p99": 0.0}


def test_every_row_of_a_source_is_accounted_for_once() -> None:
    one = ProgressReader(QueryStatus("clean", "intake", source="reports"))
    of_batch: dict[str, Any] = {
        "sink": {"numOutputRows": 80},
        "stateOperators": [{"operatorName": "dedupeWithinWatermark", "customMetrics": {"numDroppedDuplicateRows": 15}}],
    }
    one.read(batch(0, source("a", rows=100, end=100, latest=100), **of_batch), 0.0)
    # A look that finds nothing repeats what was reported of the batch before it.
    one.read(batch(1, source("a", rows=0, end=100, latest=100), **of_batch), 1.0)
    one.status.rejected, one.status.late = 7, 3

    [account] = RunStatus("city", 1, [one.status]).as_json()["sources"]

    assert account == {
        "source": "reports",
        "query": "clean",
        "in": 100,
        "stored": 70,
        "duplicate": 15,
        "late": 3,
        "rejected": 7,
        "dropped": 5,
    }


def test_what_a_query_waits_for_is_reported_with_its_reason() -> None:
    error = "topic reports does not exist (UNKNOWN_TOPIC_OR_PARTITION)"
    query = QueryStatus("clean", "intake", state="waiting", waits_for="the brokers", last_error=error)

    assert RunStatus("city", 1, [query]).faults == [f"clean: {error}"]


@pytest.mark.parametrize(
    ("lag", "rows_per_s", "waits_for", "state"),
    [
        (0, 100.0, None, "running"),
        (500, 100.0, None, "running"),
        (501, 100.0, None, "catching up"),
        (9000, 100.0, "store sqlite:///city.db", "waiting for store sqlite:///city.db"),
    ],
)
def test_the_state_says_what_is_happening(lag: int, rows_per_s: float, waits_for: str | None, state: str) -> None:
    query = QueryStatus("q", "outlet", state="running", lag=lag, rows_per_s=rows_per_s, waits_for=waits_for)

    assert RunStatus("city", 1, [query], phase="running").state == state
