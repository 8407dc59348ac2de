"""The board says what is so, in lines that people can read at a glance."""

from __future__ import annotations

from rich.console import Console

from catchment.applications.running.balance import Totals
from catchment.applications.running.board import balance_line, board, pace_line, plain_line, response_line
from catchment.applications.running.snapshot import PipelineView, Response, Snapshot

_TOTALS = Totals(arrived=72_240, stored=70_911, duplicate=803, late=312, rejected=214)
_PIPELINE = PipelineView("running", 1, watermark_age_s=20.3, latency_p50_s=0.92, latency_p99_s=2.44)
_RESPONSE = Response("burst", "Harbour: 61 calls, 2 crews", "a crew goes from Market to Harbour")
_SNAPSHOT = Snapshot("reports", 72.0, 1_204, 0, _TOTALS, responses=(_RESPONSE,), pipeline=_PIPELINE)


def drawn(snapshot: Snapshot) -> list[str]:
    console = Console(width=160, record=True, file=None, force_terminal=False)
    with console.capture() as captured:
        console.print(board(snapshot, "catchment consume dispatch"))
    return [line.rstrip() for line in captured.get().splitlines()]


def test_pace_and_balance_stand_in_the_first_two_lines() -> None:
    lines = drawn(_SNAPSHOT)
    assert lines[0] == "reports 1,204/s   lag 0   watermark −20 s   event→store p50 0.9 s p99 2.4 s"
    assert lines[1] == "in 72,240 = stored 70,911 + duplicate 803 + late 312 + rejected 214  ✓"
    assert lines[-1].startswith("[k] kill Spark   [b] kill the broker   [q] quit   next: catchment consume dispatch")


def test_an_alert_shows_its_answer_once_there_is_one() -> None:
    assert str(response_line(_RESPONSE)) == (
        "ALERT burst Harbour: 61 calls, 2 crews → a crew goes from Market to Harbour ✓ acted"
    )
    assert str(response_line(Response("burst", "Harbour", None))) == "ALERT burst Harbour → …"


def test_the_board_keeps_its_height() -> None:
    many = Snapshot("reports", 1.0, responses=(_RESPONSE,) * 50, news="Spark is starting … 4 s")
    assert len(drawn(Snapshot("reports", 0.0))) == len(drawn(_SNAPSHOT)) == len(drawn(many))


def test_what_is_on_the_way_and_what_is_lost_are_shown_where_there_is_any() -> None:
    totals = Totals(arrived=10, stored=6, on_the_way=3, lost=1)
    line = str(balance_line(Snapshot("reports", 1.0, totals=totals, is_even=False)))
    assert line == "in 10 = stored 6 + duplicate 0 + late 0 + rejected 0 + on the way 3 + LOST 1  ✗"


def test_a_fault_takes_the_place_of_other_news() -> None:
    lines = drawn(Snapshot("reports", 1.0, is_even=False, faults=("event 7 was read and is nowhere",), news="starting"))
    assert "event 7 was read and is nowhere" in lines
    assert "starting" not in lines


def test_how_often_spark_was_started_is_told_from_the_second_time_on() -> None:
    assert "started" not in str(pace_line(_SNAPSHOT))
    again = Snapshot("reports", 1.0, pipeline=PipelineView("running", 3))
    assert str(pace_line(again)).endswith("Spark started 3 times")


def test_a_log_gets_everything_in_one_line() -> None:
    line = plain_line(_SNAPSHOT)
    assert "\n" not in line
    assert line.startswith("  72 s  reports 1,204/s")
    assert "✓" in line
    assert line.endswith("alerts 1, acted 1")
