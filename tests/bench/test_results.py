"""Ratios, bars and what a run hands to scripts."""

import io
import json

import pytest
from rich.console import Console

from catchment.bench.measure import Measure, ratio
from catchment.bench.results import Results
from catchment.bench.table import ratio_tables, significant
from catchment.bench.target import FLUSHED, UNFLUSHED, FlushPolicy

FASTER = Measure("produce", "produce 1 KB", "MB/s", bar=1.8)
SMALLER = Measure("p99", "latency p99", "ms", higher_is_better=False, bar=0.5)
PLAIN = Measure("p95", "latency p95", "ms", higher_is_better=False)


def filled(policy: FlushPolicy, measure: Measure, **values: list[float]) -> Results:
    results = Results(peers=["kafka"])
    results.expect(policy, measure)
    for name, rounds in values.items():
        for value in rounds:
            results.add(policy, name, {measure.key: value})
    return results


@pytest.mark.parametrize(
    ("measure", "value", "expected"),
    [
        (FASTER, 1.8, True),
        (FASTER, 1.79, False),
        (SMALLER, 0.5, True),
        (SMALLER, 0.51, False),
        (PLAIN, 9.0, None),
    ],
)
def test_a_bar_is_a_lower_or_an_upper_bound(measure: Measure, value: float, expected: bool | None) -> None:
    assert measure.passes(value, measure.bar) is expected


def test_a_ratio_needs_both_numbers() -> None:
    assert ratio(3.0, 2.0) == 1.5
    assert ratio(None, 2.0) is None
    assert ratio(3.0, None) is None
    assert ratio(3.0, 0.0) is None


def test_the_median_round_counts_and_not_the_best() -> None:
    (row,) = filled(UNFLUSHED, FASTER, catchment=[900.0, 200.0, 400.0], kafka=[100.0, 300.0, 200.0]).rows()
    assert row.median("catchment") == 400.0
    assert row.ratio("kafka") == 2.0
    assert row.passed() is True


def test_a_row_without_our_number_neither_passes_nor_fails() -> None:
    (row,) = filled(UNFLUSHED, FASTER, kafka=[100.0]).rows()
    assert row.ratio("kafka") is None
    assert row.passed() is None


def test_the_same_measure_under_two_policies_makes_two_rows() -> None:
    results = filled(UNFLUSHED, FASTER, catchment=[4.0], kafka=[2.0])
    results.expect(FLUSHED, FASTER)
    results.add(FLUSHED, "catchment", {"produce": 1.0})
    assert [(row.section.key, row.median("catchment")) for row in results.rows()] == [
        ("unflushed", 4.0),
        ("flushed", 1.0),
    ]


def test_json_holds_every_round_and_the_verdict() -> None:
    results = filled(UNFLUSHED, SMALLER, catchment=[1.0, 2.0, 3.0], kafka=[2.0])
    results.unavailable["rabbitmq"] = "not installed"
    document = json.loads(json.dumps(results.as_json()))
    (row,) = document["rows"]
    assert row["rounds"] == {"catchment": [1.0, 2.0, 3.0], "kafka": [2.0]}
    assert row["ratios"] == {"kafka": 1.0}
    assert row["passed"] is False
    assert document["unavailable"] == {"rabbitmq": "not installed"}


def test_the_table_marks_cleared_and_missed_bars() -> None:
    results = filled(UNFLUSHED, FASTER, catchment=[400.0], kafka=[200.0], ceiling=[800.0])
    results.expect(UNFLUSHED, SMALLER)
    results.add(UNFLUSHED, "catchment", {"p99": 3.0})
    results.add(UNFLUSHED, "kafka", {"p99": 2.0})
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(*ratio_tables(results))
    lines = console.export_text().splitlines()
    (produced,) = [line for line in lines if "produce 1 KB" in line]
    (late,) = [line for line in lines if "latency p99" in line]
    assert "2.00 ✓ ≥1.8" in produced
    assert "0.50" in produced
    assert "1.50 ✗ ≤0.5" in late


def test_a_bar_may_be_set_against_another_peer_and_a_limit_against_none() -> None:
    against_tuned = Measure("tuned", "latency p50", "ms", False, bar=1.1, bar_peer="kafka tuned")
    alone = Measure("alone", "real time p50", "ms", False, limit=10)
    results = Results(peers=["kafka", "kafka tuned"])
    for measure, values in (
        (against_tuned, {"catchment": 60, "kafka": 600, "kafka tuned": 50}),
        (alone, {"catchment": 9}),
    ):
        results.expect(UNFLUSHED, measure)
        for name, value in values.items():
            results.add(UNFLUSHED, name, {measure.key: float(value)})
    assert [row.passed() for row in results.rows()] == [False, True]
    console = Console(width=160, record=True, file=io.StringIO())
    console.print(*ratio_tables(results))
    text = console.export_text()
    assert "1.20 ✗ ≤1.1" in text
    assert "9.00 ✓ ≤10" in text


def test_a_section_shows_only_the_peers_that_were_measured_in_it() -> None:
    results = filled(UNFLUSHED, FASTER, catchment=[4.0], kafka=[2.0])
    results.peers.append("rabbitmq")
    ((section, names, rows),) = results.sections()
    assert (section, names, len(rows)) == (UNFLUSHED, ["kafka"], 1)


def test_the_spread_is_half_the_range_over_the_median() -> None:
    (row,) = filled(UNFLUSHED, FASTER, catchment=[90.0, 100.0, 130.0], kafka=[1.0]).rows()
    assert row.spread("catchment") == pytest.approx(0.2)
    assert row.spread("kafka") == 0.0


@pytest.mark.parametrize(
    ("value", "expected"), [(123456.7, "123,457"), (12.345, "12.3"), (1.2345, "1.23"), (0.004, "0.00")]
)
def test_numbers_are_shown_with_three_figures(value: float, expected: str) -> None:
    assert significant(value) == expected
