"""Every application does what it is for: its events are all accounted for, its store is right, and its actuator has acted."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest
from tests.applications.played import Played, Story

from catchment.applications.catalogue import board_table_of
from catchment.applications.emergency import simulation as city
from catchment.applications.metrics.simulation import HOSTS
from catchment.applications.running.board_table import TableReader
from catchment.applications.running.reconciling import lake_differences
from catchment.applications.sensors.simulation import Actuator as AirConditioning

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from tests.client.logs import Logs

Play = Callable[..., Played]
pytestmark = pytest.mark.timeout(1500)


@pytest.fixture
def play(pipeline_spark: SparkSession, catchment_logs: Logs, tmp_path: Any) -> Play:
    def played(name: str, *, seconds: int = 30, events_a_second: int = 100) -> Played:
        story = Story(name, pipeline_spark, catchment_logs.bootstrap_servers, tmp_path / name)
        story.send(range(seconds), events_a_second)
        story.drain()
        ended = story.end()
        balanced(ended)
        return ended

    return played


def balanced(played: Played) -> None:
    """Nothing is lost, nothing is there twice, and the for-ever store has what the log has."""
    totals = played.account.totals
    assert played.account.balance.faults == []
    assert totals.arrived == totals.accounted
    assert totals.on_the_way == 0
    assert totals.rejected > 0
    assert totals.duplicate > 0
    assert played.account.balance.compare_with_ledger({}) == []
    assert lake_differences(played.layout, played.clean()) == []
    shown_on_the_board(played)


def shown_on_the_board(played: Played) -> None:
    """The board finds in the store the columns that the application declares."""
    layout, declared = played.layout, board_table_of(played.layout.name)
    assert layout.store is not None
    table = TableReader(layout.store, declared).read()
    assert table is not None
    assert (table.title, table.label, table.beside) == (declared.title, declared.label, declared.beside)
    assert table.rows
    assert any(cell.value for row in table.rows for cell in row.cells)
    assert table.count == len(played.stored())


def window_of(row: dict[str, Any], size_s: int = 10) -> int:
    return int(datetime.fromisoformat(row["at"]).timestamp()) // size_s * size_s


def test_emergency_counts_districts_and_sends_crews(
    pipeline_spark: SparkSession, catchment_logs: Logs, tmp_path: Any
) -> None:
    story = Story("emergency", pipeline_spark, catchment_logs.bootstrap_servers, tmp_path)
    story.send(range(30), 200, is_last=False)
    story.drain()
    story.send(range(30, 90), 200)
    story.drain()
    played = story.end()
    balanced(played)
    assert played.account.totals.late > 0
    assert city.differences(played.clean(), played.stored()) == []
    # The generator has a burst every half minute or so, mostly where crews are few.
    assert any("a crew goes from" in one for one in played.acted)


def test_emergency_reports_a_wrong_board() -> None:
    report = {"district": "Harbour", "at": "2026-05-01T12:00:03+00:00", "origin": "citizen"}
    row = {"district": "Harbour", "start": datetime.fromisoformat("2026-05-01T12:00:00+00:00"), "count": 1, "calls": 1}
    assert city.differences([report], [row]) == []
    assert city.differences([report, report], [row]) == [
        "the board has (1, 1) for Harbour at 12:00:00, and the reports are (2, 2)"
    ]
    assert len(city.differences([], [row])) == 1
    assert len(city.differences([report], [])) == 1


def test_logs_disables_the_feature_whose_service_fails(play: Play) -> None:
    played = play("logs")
    critical = Counter((row["service"], window_of(row)) for row in played.clean() if row["level"] == "CRITICAL")
    stored = {
        (row["service"], int(row["start"].timestamp())): row["critical"] for row in played.stored() if row["critical"]
    }
    assert stored == critical
    failing = {service for (service, _), count in critical.items() if count >= 20}
    assert sorted(played.acted) == sorted(f"feature {one} is disabled" for one in failing)
    assert failing


def test_sensors_switches_each_room_when_it_crosses_30_degrees(play: Play) -> None:
    played = play("sensors", seconds=40)
    last = {}
    for row in sorted(played.clean(), key=lambda one: str(one["at"])):
        last[row["room"]] = row["celsius"] >= 30
    assert {row["room"]: row["is_hot"] for row in played.stored()} == last
    assert isinstance(played.actuator, AirConditioning)
    is_on = played.actuator.is_on
    assert is_on == {room: is_hot for room, is_hot in last.items() if room in is_on}
    assert set(last) - is_on.keys() <= {room for room, is_hot in last.items() if not is_hot}


def test_market_alerts_on_gains_of_a_day_and_on_large_orders(play: Play) -> None:
    played = play("market", events_a_second=200)
    large = {row["symbol"] for row in played.clean() if row["price"] * row["quantity"] >= 1_000_000}
    rising = {row["symbol"] for row in played.stored() if row["last"] / row["first"] - 1 >= 0.10}
    assert rising == {"OAK"}
    commands = played.values("desk")
    assert {one["row"]["symbol"] for one in commands if one["alert"] == "gain"} == rising
    assert {one["row"]["symbol"] for one in commands if one["alert"] == "large"} == large
    assert large


def test_astronomy_turns_the_telescope_to_a_flash(play: Play) -> None:
    played = play("astronomy")
    flashing = {row["star"] for row in played.stored() if row["peak"] > 5 * row["usual"]}
    assert flashing
    assert {one["row"]["star"] for one in played.values("telescope")} == flashing


def test_social_puts_bursts_of_a_tag_on_the_front_page(play: Play) -> None:
    played = play("social")
    loud = {one["row"]["tag"] for one in played.values("front-page")}
    assert loud
    assert loud <= {"#eclipse", "#goal", "#snow"}
    counts = Counter(
        (row["tag"], start) for row in played.clean() for start in (window_of(row, 5), window_of(row, 5) - 5)
    )
    assert {(row["tag"], int(row["start"].timestamp())): row["posts"] for row in played.stored()} == counts


def test_website_finds_visits_and_reminds_of_full_carts(play: Play) -> None:
    played = play("website", seconds=60, events_a_second=50)
    clicks = defaultdict(list)
    for row in played.clean():
        clicks[row["visitor"]].append(datetime.fromisoformat(row["at"]).timestamp())
    for visit in played.stored():
        start_s, end_s = visit["start"].timestamp(), visit["end"].timestamp()
        within = [one for one in clicks[visit["visitor"]] if start_s <= one < end_s]
        assert len(within) == visit["pages"]
        assert end_s == pytest.approx(max(within) + 10)
    abandoned = {row["visitor"] for row in played.stored() if row["has_cart"] and not row["has_paid"]}
    assert abandoned
    assert set(played.acted) == {f"a letter to {one}" for one in abandoned}


def test_accounts_are_what_their_events_make_them(play: Play) -> None:
    played = play("accounts", events_a_second=300)
    cents: Counter[str] = Counter()
    for row in played.clean():
        cents[row["account"]] += -row["cents"] if row["kind"] == "withdrawn" else row["cents"]
    assert {row["account"]: row["cents"] for row in played.stored()} == cents
    overdrawn = {account for account, left in cents.items() if left < 0}
    assert {f"{one} is frozen" for one in overdrawn} <= set(played.acted)


def test_metrics_has_the_load_of_each_host_and_restarts_those_that_fall_silent(
    pipeline_spark: SparkSession, catchment_logs: Logs, tmp_path: Any
) -> None:
    story = Story("metrics", pipeline_spark, catchment_logs.bootstrap_servers, tmp_path)
    story.send(range(20), 50)
    story.drain()
    # Nothing more comes, so in the end all that were heard of are silent.
    story.run_until_commanded("outlet-alert-silent", len(HOSTS))
    played = story.end()
    balanced(played)
    assert sorted(played.acted) == sorted(f"{host} is restarted" for host in HOSTS)
    loads = defaultdict(list)
    for row in played.clean():
        loads[row["host"], window_of(row)].append(row["cpu"])
    stored = {(row["host"], int(row["start"].timestamp())): row["cpu"] for row in played.stored()}
    assert stored == pytest.approx({place: sum(found) / len(found) for place, found in loads.items()})


def test_requests_are_replied_to_once_each_and_what_runs_out_is_ordered(play: Play) -> None:
    played = play("requests", events_a_second=400)
    replies = played.values("replies")
    assert sorted(one["request"] for one in replies) == sorted(one["id"] for one in played.clean())
    assert {one["status"] for one in replies} == {"offered", "unknown item"}
    assert all(one["total_cents"] == 450 * one["quantity"] for one in replies if one["item"] == "tea")
    short = {row["item"] for row in played.stored() if row["asked"] > row["shelf"]}
    assert short
    assert {one["row"]["item"] for one in played.values("purchases")} == short
