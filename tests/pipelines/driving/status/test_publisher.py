"""The status of a run: over HTTP, for Prometheus, as OpenLineage events, and on a terminal."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, HTTPServer
from io import StringIO
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from prometheus_client.parser import text_string_to_metric_families
from rich.console import Console
from tests.pipelines.driving.reports_of_spark import START, moment
from tests.pipelines.driving.supervised import wait_for

from catchment.pipelines.declaration.declared import Declared
from catchment.pipelines.driving.lineage import Lineage
from catchment.pipelines.driving.status import metrics
from catchment.pipelines.driving.status.model import QueryStatus, RunStatus
from catchment.pipelines.driving.status.panel import Lines, cells, line, panel, summary
from catchment.pipelines.driving.status.publisher import Publisher
from catchment.pipelines.driving.supervision.run_file import read_run, write_run
from catchment.pipelines.graph import Graph
from catchment.pipelines.home import Home

GUIDE = Path(__file__).parents[4] / "docs" / "guide" / "running-pipelines.md"
NOW = START + timedelta(seconds=30)


def status() -> RunStatus:
    source_stage = QueryStatus(
        "clean", "intake", state="running", rows=10, rows_per_s=1204.0, lag=0, watermark=moment(10)
    )
    sink = QueryStatus(
        "outlet-board-store-board",
        "outlet",
        state="running",
        rows_per_s=1204.0,
        lag=3,
        watermark=moment(8),
        batch_id=7,
        batch_ms=350,
        latency_ms={"p50": 900.0, "p99": 1500.0},
        restarts=2,
    )
    return RunStatus("city", 1, [source_stage, sink], phase="running")


@pytest.fixture
def home(tmp_path: Path) -> Home:
    home = Home(tmp_path, "city")
    home.folder.mkdir()
    write_run(home, {"pid": 17, "driver_starts": 3, "state": "starting"})
    return home


@pytest.fixture
def publisher(home: Home) -> Iterator[Publisher]:
    one = Publisher(home, status(), 0)
    yield one
    one.close()


def test_the_status_is_served_and_written_with_what_the_supervisor_knows(home: Home, publisher: Publisher) -> None:
    publisher.publish()

    written = read_run(home)
    assert written is not None
    with urlopen(f"{written['address']}/status") as answer:
        assert json.load(answer) == written
    assert (written["pid"], written["driver_starts"], written["state"]) == (17, 3, "running")
    assert [query["name"] for query in written["queries"]] == ["clean", "outlet-board-store-board"]
    assert written["latency_ms"] == {"p50": 900.0, "p99": 1500.0}


def test_a_lake_that_waits_on_purpose_is_not_the_latency_of_a_pipeline_that_has_a_store() -> None:
    lake = QueryStatus("outlet-lake", "outlet", latency_ms={"p50": 4000.0, "p99": 6000.0}, is_real_time=False)
    both = status()
    both.queries.append(lake)
    assert both.as_json()["latency_ms"] == {"p50": 900.0, "p99": 1500.0}
    assert RunStatus("city", 1, [lake]).as_json()["latency_ms"] == {"p50": 4000.0, "p99": 6000.0}


def test_another_path_is_not_found(publisher: Publisher) -> None:
    publisher.publish()
    with pytest.raises(HTTPError, match="there is /status and /metrics") as raised:
        urlopen(f"{publisher.last()['address']}/")
    raised.value.close()


def test_prometheus_reads_the_same_numbers(publisher: Publisher) -> None:
    publisher._status.alerts = {"hot": {"fired": 2, "cooling": 7}}
    publisher._status.notifications = {"hot.webhook-0": {"delivered": 1, "given_up": 1}}
    publisher._status.lineage_lost = 5
    publisher.publish()

    with urlopen(f"{publisher.last()['address']}/metrics") as answer:
        families = list(text_string_to_metric_families(answer.read().decode()))

    samples = {
        (one.name, one.labels.get("query"), one.labels.get("quantile")): one.value
        for family in families
        for one in family.samples
    }
    assert samples["catchment_pipeline_rows_total", "clean", None] == 10
    assert samples["catchment_pipeline_lag_records", "outlet-board-store-board", None] == 3
    assert samples["catchment_pipeline_batch_seconds", "outlet-board-store-board", None] == pytest.approx(0.35)
    assert samples["catchment_pipeline_latency_seconds", "outlet-board-store-board", "0.99"] == pytest.approx(1.5)
    assert samples["catchment_pipeline_watermark_seconds", "clean", None] == START.timestamp() + 10
    assert samples["catchment_pipeline_driver_starts_total", None, None] == 3
    assert {name for name, _, _ in samples} == set(metrics.NAMES)
    told = {
        (one.labels.get("alert") or one.labels.get("target"), one.labels.get("outcome")): one.value
        for family in families
        for one in family.samples
        if one.name in (metrics.ALERTS, metrics.NOTIFICATIONS, metrics.LINEAGE_LOST)
    }
    assert told == {
        ("hot", "fired"): 2,
        ("hot", "cooling"): 7,
        ("hot.webhook-0", "delivered"): 1,
        ("hot.webhook-0", "given_up"): 1,
        (None, None): 5,
    }


def test_every_metric_is_in_the_guide() -> None:
    page = GUIDE.read_text(encoding="utf-8")

    assert all(f"`{name}`" in page for name in metrics.NAMES)


def graph() -> Graph:
    declared = {
        "pipeline": "city",
        "sources": {"reports": {"topic": "reports", "schema": "at timestamp", "event_time": "at", "lateness": "1 s"}},
        "tables": {"crews": {"topic": "crews", "schema": "d string", "key": "d"}},
        "stages": {"clean": {"from": "reports"}, "board": {"from": ["clean", "crews"], "sql": "SELECT 1"}},
        "sinks": [
            {"from": "board", "store": "postgresql://ann:secret@db/city", "table": "board"},
            {"from": "clean", "lake": "lake/reports"},
        ],
        "alerts": {"burst": {"from": "board", "when": "true", "key": "d", "to": {"topic": "dispatch"}}},
    }
    return Graph(Declared(declared).check())


def test_lineage_names_what_each_query_reads_and_writes_without_passwords(tmp_path: Path) -> None:
    file = tmp_path / "lineage.jsonl"
    lineage = Lineage(str(file), graph(), "broker:9092,other:9092", tmp_path)
    queries = ["clean", "outlet-board-store-board", "outlet-clean-lake-reports", "outlet-alert-burst"]
    for query in queries:
        lineage.started(query)
    lineage.ended("FAIL", "the store refused")
    lineage.close()

    events = [json.loads(text) for text in file.read_text().splitlines()]
    assert [one["eventType"] for one in events] == ["START"] * 4 + ["FAIL"] * 4
    starts = {one["job"]["name"]: one for one in events[:4]}
    kafka = "kafka://broker:9092"
    assert starts["city.clean"]["inputs"] == [{"namespace": kafka, "name": "reports"}]
    assert {one["name"] for one in starts["city.clean"]["outputs"]} == {"city.clean", "city.quarantine", "city.late"}
    assert [one["name"] for one in starts["city.outlet-board-store-board"]["inputs"]] == ["city.clean", "crews"]
    assert starts["city.outlet-board-store-board"]["outputs"] == [
        {"namespace": "postgres://db:5432", "name": "city.public.board"},
        {"namespace": kafka, "name": "city.quarantine"},
    ]
    assert starts["city.outlet-clean-lake-reports"]["outputs"] == [
        {"namespace": "file", "name": f"{tmp_path}/lake/reports"}
    ]
    assert [one["name"] for one in starts["city.outlet-alert-burst"]["outputs"]] == ["dispatch", "city.alerts"]
    fails = {one["job"]["name"]: one for one in events[4:]}
    for name, start in starts.items():
        assert fails[name]["run"]["runId"] == start["run"]["runId"]
        assert fails[name]["run"]["facets"]["errorMessage"]["message"] == "the store refused"
    assert "secret" not in file.read_text()


@contextmanager
def catcher(hold: threading.Event) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """An address that answers once it may."""
    caught: list[dict[str, Any]] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            caught.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            hold.wait(30)
            self.send_response(201)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}/api/v1/lineage", caught
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def test_an_address_that_does_not_answer_delays_nothing_and_lost_events_are_counted() -> None:
    hold = threading.Event()
    with catcher(hold) as (address, caught):
        lineage = Lineage(address, graph(), "broker:9092", Path("/city"))
        for _ in range(2000):
            lineage.started("clean")
        wait_for("the first arrives", lambda: len(caught) == 1)

        assert 900 <= lineage.lost <= 1000
        hold.set()
        lineage.close()
        assert len(caught) == 2000 - lineage.lost


def test_a_line_says_the_whole_run() -> None:
    run = status().as_json()

    assert line(run, NOW) == "city: running   1,204 rows/s   lag 3   watermark −22 s   event→store 0.9 s · 1.5 s"


def _accounted() -> RunStatus:
    one = status()
    one.queries[0].source, one.queries[0].rows, one.queries[0].rows_out = "reports", 2000, 1500
    one.queries[0].duplicates, one.queries[0].rejected, one.queries[0].late = 500, 200, 100
    one.queries[1].rejected = 4
    one.alerts = {"burst": {"fired": 12, "repeated": 3, "without_time": 0}, "calm": {"fired": 0}}
    return one


def test_outcomes_of_rows_and_alerts_are_shown_during_the_run_and_in_its_summary() -> None:
    one = _accounted()
    said = [
        "reports in 2,000 = stored 1,200 + duplicate 500 + late 100 + rejected 200",
        "outlet-board-store-board rejected 4",
        "alert burst: 12 fired, 3 repeated",
    ]
    output = StringIO()
    Console(file=output, width=160).print(panel(one.as_json(), NOW))

    assert all(part in output.getvalue() for part in said)
    assert line(one.as_json(), NOW).endswith("   ".join(said))
    ended = {"started_at": moment(0), "ended_at": moment(72), "state": "stopped", "asked_by": "SIGINT"}
    assert summary(one.as_json() | ended) == [
        "city: stopped by Ctrl-C after 1 min 12 s",
        *(f"city: {one}" for one in said),
    ]


@pytest.mark.parametrize(
    ("more", "reason"),
    [
        ({"state": "stopped", "asked_by": None}, "all available rows are processed after 1.5 s"),
        ({"state": "stopped", "asked_by": "SIGTERM"}, "stopped by SIGTERM after 1.5 s"),
        ({"state": "failed", "exit_code": 4, "asked_by": None}, "failed with exit code 4 after 1.5 s"),
    ],
)
def test_a_summary_says_why_the_run_ended(more: dict[str, Any], reason: str) -> None:
    run = {"pipeline": "city", "started_at": moment(0), "ended_at": moment(1.5)} | more
    assert summary(run) == [f"city: {reason}"]


def test_counts_of_a_run_whose_spark_was_started_again_say_since_when() -> None:
    assert summary(_accounted().as_json() | {"state": "stopped", "driver_starts": 3})[-1] == (
        "city: counted since the last of 3 starts of Spark"
    )


def test_a_query_that_catches_up_shows_no_latency() -> None:
    query = asdict(QueryStatus("board", "outlet", is_catching_up=True))
    assert cells(query, NOW)[-1] == "catching up"


def test_the_start_shows_how_long_it_takes_already() -> None:
    run = {"pipeline": "city", "version": 1, "state": "starting", "driver_started_at": moment(18), "driver_starts": 2}

    assert line(run, NOW) == "city: Spark is starting 12 s, start 2"
    assert "the queries are starting 12 s" in line(run | {"spark_pid": 5}, NOW)


def test_the_table_has_a_line_for_each_query_and_says_what_it_waits_for() -> None:
    one = status()
    one.queries[1].waits_for = "store sqlite:///city.db"
    one.queries[1].dropped_rows = 4
    output = StringIO()

    Console(file=output, width=160).print(panel(one.as_json(), NOW))

    text = output.getvalue()
    assert "waiting for store sqlite:///city.db" in text
    assert "−20 s" in text
    assert "350 ms" in text
    assert "dropped 4 rows" in text


def test_why_alerts_are_not_in_real_time_and_failed_notifications_are_in_every_form_of_the_status(
    home: Home, publisher: Publisher
) -> None:
    publisher._status.notes = ("alert hot is decided in micro-batches: it sorts",)
    publisher._status.troubles = ["city.alerts.hot.webhook-0: no answer"]
    publisher.publish()

    run = publisher.last()
    output, lines = StringIO(), list[str]()
    Console(file=output, width=160).print(panel(run, NOW))
    view = Lines(lines.append)
    view.show(run)
    view.show(run | {"state": "catching up"})

    written = read_run(home)
    assert written is not None
    for one in (written, run):
        assert (one["notes"], one["faults"]) == (
            ["alert hot is decided in micro-batches: it sorts"],
            ["city.alerts.hot.webhook-0: no answer"],
        )
    assert "alert hot is decided in micro-batches: it sorts" in output.getvalue()
    assert "! city.alerts.hot.webhook-0: no answer" in output.getvalue()
    assert lines[0] == "city: alert hot is decided in micro-batches: it sorts"
    assert [("micro-batches" in one, "! city.alerts.hot.webhook-0: no answer" in one) for one in lines[1:]] == [
        (False, True),
        (False, True),
    ]


def test_lines_come_every_few_seconds_and_at_once_when_the_state_changes() -> None:
    lines: list[str] = []
    now_s = [0.0]
    view = Lines(lines.append, clock=lambda: now_s[0])
    run = status().as_json()
    for tick in range(41):
        now_s[0] = tick / 4
        view.show(run)
    assert len(lines) == 3

    view.show(run | {"state": "catching up"})
    assert len(lines) == 4
