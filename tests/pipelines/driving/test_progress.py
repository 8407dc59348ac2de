"""What Spark reports of batches, as the status of a query."""

from __future__ import annotations

from datetime import timedelta

import pytest
from tests.pipelines.driving.reports_of_spark import START, batch, moment, source

from catchment.pipelines.driving.latency import Latency
from catchment.pipelines.driving.progress import ProgressReader
from catchment.pipelines.driving.status import QueryKind, QueryStatus, RunStatus


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
        # Spark looks again right after a batch, finds nothing, and is told.
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


def test_latency_ends_when_the_rows_are_stored_and_not_when_the_batch_does() -> None:
    one = reader("outlet")
    times = {"min": moment(0), "avg": moment(8), "max": moment(9), "watermark": moment(0)}

    one.read(batch(0, source("a", rows=100, end=100, latest=100), at_s=10.0, eventTime=times), 0.0)

    # The batch began at 10 s, and its rows were stored after 900 ms of it.
    assert one.status.latency_ms is not None
    assert one.status.latency_ms["p50"] == pytest.approx(2900)


def test_the_latency_of_one_in_a_hundred_is_that_of_the_oldest_events() -> None:
    latency = Latency()
    for number in range(100):
        stored = START + timedelta(seconds=number / 10)
        oldest, mean = stored - timedelta(seconds=9), stored - timedelta(seconds=1)
        latency.add(stored, oldest, mean, stored - timedelta(seconds=0.5), rows=1000)

    before = latency.quantiles()
    latency.add(START + timedelta(seconds=10), START - timedelta(seconds=20), START, START, rows=5000)
    after = latency.quantiles()

    assert before is not None
    assert after is not None
    assert before["p50"] == after["p50"] == 1000
    assert before["p99"] == 1000
    assert after["p99"] > 9000


def test_latency_forgets_what_is_older_than_a_minute() -> None:
    latency = Latency()
    slow = timedelta(seconds=50)
    latency.add(START, START - slow, START - slow, START - slow, rows=10_000)
    later = START + timedelta(seconds=61)

    latency.add(later, later, later, later, rows=1)

    assert latency.quantiles() == {"p50": 0.0, "p99": 0.0}


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
