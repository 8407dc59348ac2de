"""Queries that fail: restarted with growing pauses, given up after a while, without delaying the others."""

from __future__ import annotations

from typing import Any

import pytest
from tests.pipelines.driving.reports_of_spark import FakeQuery, batch, source

from catchment.client.errors import Unreachable
from catchment.pipelines.declaration.declared import Declared
from catchment.pipelines.declaration.specification import Check
from catchment.pipelines.driving.exit_codes import ExitCode
from catchment.pipelines.driving.failures import Failure
from catchment.pipelines.driving.query_group import QueryGroup
from catchment.pipelines.driving.restarting_query import RestartingQuery, RetryLimits
from catchment.pipelines.driving.status.model import QueryStatus, RunStatus
from catchment.pipelines.graph import Graph
from catchment.pipelines.stores.store_errors import StoreAway, StoreRefused

PATIENCE = RetryLimits(away_s=100.0, lost=3, first_pause_s=1.0, longest_pause_s=8.0)


class Starts:
    """What a query becomes at each start; the last of it stays for all that follow."""

    def __init__(self, *queries: FakeQuery) -> None:
        self._queries = list(queries)
        self.at_s: list[float] = []
        self.now_s = 0.0

    def __call__(self) -> FakeQuery:
        self.at_s.append(self.now_s)
        return self._queries.pop(0) if len(self._queries) > 1 else self._queries[0]

    def clock(self) -> float:
        return self.now_s

    def restarting(self, **more: Any) -> RestartingQuery:
        return RestartingQuery(
            QueryStatus("outlet-board-store-board", "outlet"), self, patience=PATIENCE, clock=self.clock, **more
        )

    def check_until(self, restarting: RestartingQuery, end_s: float) -> Failure | None:
        """Look every half second."""
        while self.now_s < end_s:
            if (failure := restarting.check()) is not None:
                return failure
            self.now_s += 0.5
        return None


def failed(error: BaseException) -> FakeQuery:
    return FakeQuery(error=error)


def test_a_store_that_is_away_is_waited_for_with_growing_pauses_and_named() -> None:
    starts = Starts(failed(StoreAway("the store is away", "Start it.")))
    restarting = starts.restarting(target="store sqlite:///city.db")

    assert starts.check_until(restarting, 40.0) is None

    assert restarting.status.state == "waiting"
    assert restarting.status.waits_for == "store sqlite:///city.db"
    assert restarting.status.last_error == "the store is away. Start it."
    pauses = [round(later - earlier) for earlier, later in zip(starts.at_s, starts.at_s[1:], strict=False)]
    assert pauses[:3] == sorted(pauses[:3])
    assert max(pauses) <= 9


def test_a_query_is_well_again_once_it_has_reported() -> None:
    well = FakeQuery(batch(0, source("a", rows=1, end=1, latest=1)))
    starts = Starts(failed(StoreAway("away")), well)
    restarting = starts.restarting(target="store s")

    assert starts.check_until(restarting, 10.0) is None

    assert (restarting.status.state, restarting.status.waits_for, restarting.status.restarts) == ("running", None, 1)
    # What has been waited for before does not count when it is away again much later.
    starts.now_s = 500.0
    well.is_active, well.error = False, StoreAway("away")
    assert starts.check_until(restarting, 510.0) is None
    assert restarting.status.state == "waiting"


@pytest.mark.parametrize("error", [StoreAway("away"), Unreachable("no broker")], ids=["store", "brokers"])
def test_what_is_away_for_too_long_ends_the_run(error: Exception) -> None:
    starts = Starts(failed(error))

    failure = starts.check_until(starts.restarting(), 1000.0)

    assert failure is not None
    assert failure.exit_code == ExitCode.AWAY
    assert 100.0 < starts.now_s < 120.0
    assert failure.message.startswith("outlet-board-store-board: ")


def test_work_that_is_lost_once_a_long_wait_is_over_does_not_end_the_run() -> None:
    away = [failed(Unreachable("the brokers are away")) for _ in range(PATIENCE.lost + 2)]
    starts = Starts(*away, failed(RuntimeError("Python worker exited unexpectedly (crashed)")), FakeQuery())
    restarting = starts.restarting()

    assert starts.check_until(restarting, 90.0) is None

    assert len(starts.at_s) == len(away) + 2


def test_work_that_is_lost_again_and_again_ends_the_run() -> None:
    starts = Starts(failed(ConnectionResetError("a worker died")))

    failure = starts.check_until(starts.restarting(), 1000.0)

    assert failure is not None
    assert failure.exit_code == ExitCode.FAILED
    assert len(starts.at_s) == PATIENCE.lost + 1


def test_what_cannot_be_cured_is_not_tried_again() -> None:
    starts = Starts(failed(StoreRefused("column a is an int")))

    failure = starts.check_until(starts.restarting(), 1000.0)

    assert failure is not None
    assert failure.exit_code == ExitCode.REFUSED
    assert len(starts.at_s) == 1


def test_every_batch_is_compared_with_the_checks_though_several_ended_between_two_looks() -> None:
    rows = source("a", rows=300, end=300, latest=300)
    bad = batch(1, rows, at_s=1.0, observedMetrics={"checks": {"rows": 300, "check0": 151}})
    good = [
        batch(number, rows, at_s=number, observedMetrics={"checks": {"rows": 300, "check0": 0}}) for number in (0, 2, 3)
    ]
    starts = Starts(FakeQuery(good[0], bad, *good[1:]))
    restarting = starts.restarting(checks=(Check(expect="a > 0", stop_above=0.5),))

    failure = starts.check_until(restarting, 10.0)

    assert failure is not None
    assert failure.exit_code == ExitCode.STOPPED_BY_CHECK
    assert "151 of the last 300 rows" in failure.message


def test_batches_that_end_after_a_report_of_nothing_new_are_all_read() -> None:
    rows = source("a", rows=300, end=300, latest=300)
    query = FakeQuery(batch(0, rows), batch(1, at_s=1.0, durationMs={"triggerExecution": 2}))
    starts = Starts(query)
    restarting = starts.restarting(checks=(Check(expect="a > 0", stop_above=0.5),))
    assert starts.check_until(restarting, 2.0) is None
    assert restarting.status.batch_id == 0

    counts = [{"rows": 300, "check0": 300}, {"rows": 300, "check0": 0}]
    query.reports += [
        batch(number, rows, at_s=2.0 + number, observedMetrics={"checks": counted})
        for number, counted in enumerate(counts, 1)
    ]
    failure = starts.check_until(restarting, 4.0)

    assert failure is not None
    assert failure.exit_code == ExitCode.STOPPED_BY_CHECK


def test_a_report_is_counted_once_however_often_it_is_seen() -> None:
    query = FakeQuery(batch(0, source("a", rows=10, end=10, latest=10)))
    starts = Starts(query)
    restarting = starts.restarting()
    starts.check_until(restarting, 10.0)
    query.reports.append(batch(1, source("a", rows=5, end=15, latest=15), at_s=20.0))
    starts.check_until(restarting, 20.0)

    assert restarting.status.rows == 15


def two_levels() -> Graph:
    declared = {
        "pipeline": "city",
        "sources": {"reports": {"topic": "reports", "schema": "at timestamp", "event_time": "at", "lateness": "1 s"}},
        "stages": {"clean": {"from": "reports"}},
        "sinks": [{"from": "clean", "store": "sqlite:///city.db", "table": "t"}],
    }
    return Graph(Declared(declared).check())


class Queries:
    """Those of a run."""

    def __init__(self, **queries: FakeQuery) -> None:
        self.queries = {name.replace("_", "-"): query for name, query in queries.items()}
        self.started: list[str] = []
        self.finished: set[str] = set()
        self.stalled: str | None = None
        self.lasts_s = 6.0

    def start(self, name: str) -> FakeQuery:
        self.started.append(name)
        return self.queries[name]

    def has_finished(self, name: str) -> bool:
        return name in self.finished

    def stalled_s(self, name: str) -> float:
        return self.lasts_s if name == self.stalled else 0.0


def test_until_now_means_level_by_level() -> None:
    queries = Queries(clean=FakeQuery(), outlet_clean_store_t=FakeQuery())
    one = QueryGroup(two_levels(), queries, is_endless=False, patience=PATIENCE)
    for _ in range(3):
        assert one.check() is None
    assert queries.started == ["clean"]

    queries.finished = {"clean", "outlet-clean-store-t"}
    queries.queries["clean"].is_active = False
    for _ in range(3):
        one.check()
    assert queries.started == ["clean", "outlet-clean-store-t"]
    assert not one.is_done

    queries.queries["outlet-clean-store-t"].is_active = False
    one.check()
    assert one.is_done


def test_one_query_that_waits_holds_up_no_other() -> None:
    queries = Queries(clean=FakeQuery(), outlet_clean_store_t=failed(StoreAway("away")))
    one = QueryGroup(two_levels(), queries, is_endless=True, patience=PATIENCE)
    for _ in range(3):
        assert one.check() is None

    states = {status.name: status.state for status in one.statuses}
    assert states == {"clean": "starting", "outlet-clean-store-t": "waiting"}
    assert one.statuses[1].waits_for == "store sqlite:///city.db"


def test_a_query_that_ends_without_a_word_in_the_middle_of_a_batch_is_not_done() -> None:
    queries = Queries(clean=FakeQuery(is_active=False), outlet_clean_store_t=FakeQuery())
    one = QueryGroup(two_levels(), queries, is_endless=False, patience=PATIENCE)

    for _ in range(3):
        assert one.check() is None

    assert one.statuses[0].state == "waiting"
    assert not one.is_done


def test_a_store_that_does_not_answer_is_waited_for_though_nothing_has_failed() -> None:
    store = FakeQuery()
    queries = Queries(clean=FakeQuery(), outlet_clean_store_t=store)
    queries.stalled = "outlet-clean-store-t"
    one = QueryGroup(two_levels(), queries, is_endless=True, patience=PATIENCE)
    for _ in range(3):
        assert one.check() is None
    assert one.statuses[1].waits_for == "store sqlite:///city.db"

    queries.stalled = None
    store.reports.append(batch(0, source("a", rows=1, end=1, latest=1)))
    one.check()
    assert one.statuses[1].waits_for is None


def test_a_store_that_never_answers_ends_the_run_after_the_same_patience_as_one_that_is_away() -> None:
    queries = Queries(clean=FakeQuery(), outlet_clean_store_t=FakeQuery())
    one = QueryGroup(two_levels(), queries, is_endless=True, patience=PATIENCE)
    queries.stalled, queries.lasts_s = "outlet-clean-store-t", PATIENCE.away_s
    for _ in range(3):
        assert one.check() is None

    queries.lasts_s += 1
    failure = one.check()

    assert failure is not None
    assert failure.exit_code == ExitCode.AWAY
    assert "outlet-clean-store-t: store sqlite:///city.db has not answered for 101 s" in failure.message


def test_a_batch_that_takes_far_longer_than_the_last_is_named_with_what_it_writes_to() -> None:
    query = FakeQuery(batch(11, source("a", rows=1, end=1, latest=1)))
    starts = Starts(query)
    restarting = starts.restarting(target="lake /data/reports", trigger_s=2.0)
    assert starts.check_until(restarting, 20.0) is None
    assert restarting.status.overdue is None

    assert starts.check_until(restarting, 42.0) is None
    said = restarting.status.overdue
    assert said == "batch 12 has been under way for 41 s, writing to lake /data/reports; the last one took 1.0 s"
    assert RunStatus("city", 1, [restarting.status]).faults == [f"outlet-board-store-board: {said}"]

    query.reports.append(batch(12, source("a", rows=5, end=6, latest=6), at_s=42.0))
    assert starts.check_until(restarting, 43.0) is None
    assert restarting.status.overdue is None


def test_a_query_that_has_nothing_to_do_is_not_overdue() -> None:
    query = FakeQuery(batch(11, source("a", rows=1, end=1, latest=1)))
    starts = Starts(query)
    restarting = starts.restarting()
    for moment_s in range(10, 200, 10):
        assert starts.check_until(restarting, float(moment_s)) is None
        assert restarting.status.overdue is None
        idle = source("a", rows=0, end=1, latest=1)
        query.reports.append(batch(12, idle, at_s=float(moment_s), durationMs={"triggerExecution": 3}))
    assert restarting.status.batch_id == 11


def test_a_first_batch_that_does_not_end_is_named_too_and_forgotten_when_it_fails() -> None:
    query = FakeQuery()
    starts = Starts(query)
    restarting = starts.restarting()
    assert starts.check_until(restarting, 60.0) is None
    assert restarting.status.overdue is None
    assert starts.check_until(restarting, 70.0) is None
    assert restarting.status.overdue == "its first batch has been under way for 70 s"

    query.error, query.is_active = StoreAway("away"), False
    assert starts.check_until(restarting, 71.0) is None
    assert restarting.status.overdue is None
