"""The board fits the screen, and shows the results, the alerts, the pace and the balance."""

from __future__ import annotations

import pytest
from rich.cells import cell_len
from rich.console import Console

from catchment.applications.running.balance import Totals
from catchment.applications.running.board import (
    balance_line,
    balance_lines,
    bar,
    board,
    pace_line,
    plain_line,
    response_line,
    sparkline,
)
from catchment.applications.running.board_table import Cell, TableRow, TableView
from catchment.applications.running.snapshot import PipelineView, Response, Snapshot

_TOTALS = Totals(arrived=72_240, stored=70_911, duplicate=803, late=312, rejected=214)
_PIPELINE = PipelineView("running", 1, watermark_age_s=20.3, latency_p50_s=0.92, latency_p99_s=2.44)
_RESPONSE = Response("burst", "Harbour: 61 calls, 2 crews", "a crew goes from Market to Harbour", "15:41:40")
_DISTRICTS = ("Docklands", "Harbour", "Hillside", "Market", "Old Town", "Riverside", "Station", "University")
_TABLE = TableView(
    "calls by district, every 10 s",
    "district",
    tuple(f"15:4{number // 6}:{number % 6}0" for number in range(12)),
    ("count", "crew"),
    tuple(
        TableRow(one, tuple(Cell(10 + number, is_alert=number == 11) for number in range(12)), ("1,250", "2"))
        for one in _DISTRICTS
    ),
    96,
)
_SNAPSHOT = Snapshot(
    "reports",
    72.0,
    1_204,
    0,
    _TOTALS,
    lake_rows=70_911,
    table=_TABLE,
    rates=tuple(range(120)),
    lags=(0.0,) * 120,
    responses=(_RESPONSE,) * 50,
    pipeline=_PIPELINE,
)
_BUSY = Snapshot(
    "reports",
    100_000.0,
    1_000_000,
    123_456_789,
    Totals(123_456_789, 23_456_789, 3_456_789, 2_345_678, 1_234_567, 99_999_999, 12),
    is_even=False,
    faults=("event 7 was read and is nowhere, and this line is longer than any screen " * 3,),
    foreign=123_456,
    table=_TABLE,
    responses=(Response("burst", "a message that is far longer than the screen is wide " * 4, None),) * 3,
    pipeline=PipelineView("running", 30, watermark_age_s=123_456, latency_p50_s=1_000.5, latency_p99_s=20_000.5),
)
_SIZES = [(80, 24), (120, 40), (200, 60), (100, 30), (60, 20), (40, 12), (20, 6)]


def drawn(snapshot: Snapshot, width: int = 160, height: int = 40, *, has_keys: bool = True) -> list[str]:
    console = Console(width=width, height=height, force_terminal=False)
    with console.capture() as captured:
        shown = board(
            snapshot,
            title="emergency: a city's reports",
            hint="catchment consume dispatch",
            width=width,
            height=height,
            has_keys=has_keys,
        )
        console.print(shown)
    return [line.rstrip() for line in captured.get().splitlines()]


@pytest.mark.parametrize(("width", "height"), _SIZES)
@pytest.mark.parametrize("snapshot", [Snapshot("reports", 0.0), _SNAPSHOT, _BUSY], ids=["empty", "usual", "busy"])
def test_the_board_is_as_tall_as_the_screen_and_no_wider(snapshot: Snapshot, width: int, height: int) -> None:
    lines = drawn(snapshot, width, height)
    assert len(lines) == height
    assert max(map(cell_len, lines)) <= width


@pytest.mark.parametrize(("width", "height", "windows", "alerts"), [(80, 24, 4, 3), (120, 40, 8, 10)])
def test_every_district_is_shown_with_its_last_windows_and_the_newest_alerts(
    width: int, height: int, windows: int, alerts: int
) -> None:
    lines = drawn(_SNAPSHOT, width, height)
    for district in _DISTRICTS:
        (line,) = [one for one in lines if one.startswith(district)]
        assert line.count("█") >= windows
        assert line.endswith("1,250     2")
        assert " 21!" in line, "the newest window satisfies the alert's condition"
    (heading,) = [line for line in lines if line.startswith("district")]
    assert heading.split()[1:-2] == list(_TABLE.columns[-windows:])
    assert sum("Harbour: 61 calls, 2 crews → a crew goes" in line for line in lines) >= alerts
    assert any("alerts 50 · acted ✓ 50" in line for line in lines)
    assert any("[q] quit" in line for line in lines)
    assert sum("▁▁▁▁" in line for line in lines) >= 1, "the lag has a history"


def test_a_narrow_screen_shows_the_label_and_the_bars_without_the_other_columns() -> None:
    lines = drawn(_SNAPSHOT, 30, 30)
    (line,) = [one for one in lines if one.startswith("Harbour")]
    assert line.endswith("21!")


@pytest.mark.parametrize(("width", "height"), [(80, 24), (120, 40)])
def test_before_the_first_results_the_board_says_what_it_waits_for(width: int, height: int) -> None:
    lines = drawn(Snapshot("reports", 3.0, news="Spark is starting … 3 s"), width, height)
    assert any(line.startswith("── results") for line in lines)
    assert "none yet: they come with the first batch of the pipeline" in lines
    assert "Spark is starting … 3 s" in lines


def test_an_alert_shows_its_answer_once_there_is_one() -> None:
    answered = "burst Harbour: 61 calls, 2 crews → a crew goes from Market to Harbour"
    assert str(response_line(_RESPONSE)) == f"✓ 15:41:40  {answered}"
    assert str(response_line(_RESPONSE, is_wide=False)) == f"✓ {answered}"
    assert str(response_line(Response("burst", "Harbour", None))) == "… burst Harbour"


def test_the_balance_is_folded_between_its_parts_where_it_is_too_wide() -> None:
    assert [str(line) for line in balance_lines(_SNAPSHOT, 60)] == [
        "in 72,240 = stored 70,911 + duplicate 803 + late 312 ",
        "          + rejected 214  ✓",
    ]


def test_what_is_on_the_way_and_what_is_lost_are_shown_where_there_is_any() -> None:
    totals = Totals(arrived=10, stored=6, on_the_way=3, lost=1)
    line = str(balance_line(Snapshot("reports", 1.0, totals=totals, is_even=False)))
    assert line == "in 10 = stored 6 + duplicate 0 + late 0 + rejected 0 + on the way 3 + LOST 1  ✗"


def test_records_of_others_follow_the_balance() -> None:
    line = str(balance_line(Snapshot("reports", 1.0, totals=Totals(arrived=1, stored=1), foreign=7)))
    assert line == "in 1 = stored 1 + duplicate 0 + late 0 + rejected 0  ✓   and 7 from others"


def test_a_fault_takes_the_place_of_other_news() -> None:
    lines = drawn(Snapshot("reports", 1.0, is_even=False, faults=("event 7 was read and is nowhere",), news="starting"))
    assert "event 7 was read and is nowhere" in lines
    assert "starting" not in lines


def test_the_number_of_starts_of_spark_is_shown_from_the_second_on() -> None:
    assert "started" not in str(pace_line(_SNAPSHOT))
    again = Snapshot("reports", 1.0, pipeline=PipelineView("running", 3))
    assert str(pace_line(again)).endswith("Spark started 3 times")
    for size in _SIZES[:2]:
        assert any("Spark started 3 times" in line for line in drawn(again, *size))


def test_a_log_gets_everything_in_one_line() -> None:
    line = plain_line(_SNAPSHOT)
    assert "\n" not in line
    assert line.startswith("  72 s  reports 1,204/s   lag 0   watermark −20 s   event→store p50 0.9 s p99 2.4 s")
    assert "in 72,240 = stored 70,911 + duplicate 803 + late 312 + rejected 214  ✓" in line
    assert line.endswith("alerts 50, acted 50")


@pytest.mark.parametrize(
    ("values", "expected"),
    [((), "        "), ((0, 0), "      ▁▁"), ((0, 6), "      ▁▇"), (range(9), "▂▃▃▄▅▅▆▇"), ((-1, 1), "      ▁▇")],
)
def test_a_sparkline_is_as_wide_as_its_room_and_scaled_to_the_highest(values: range, expected: str) -> None:
    assert sparkline([float(one) for one in values], 8) == expected


def test_a_bar_grows_by_eighths() -> None:
    assert [bar(value, 16, 2) for value in (0, 1, 8, 9, 16, 40, -3)] == ["  ", "▏ ", "█ ", "█▏", "██", "██", "  "]
    assert bar(0, 0, 3) == "   "
