"""A stage that was wrong is recomputed from the lake, and readers see the old history or the new one, nothing between.

Set CATCHMENT_LIVE_STORES=sqlite,postgresql to have a live board read in both.
"""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final

import psycopg
import pytest
from tests.pipelines.city import City, Report, at, count_reports
from tests.pipelines.driving.supervised import wait_for
from tests.pipelines.stores.servers import PostgresServer
from tests.pipelines.watched_board import Reader, Rows, Sender, Window, faults, reading

from catchment.client.errors import ClientError, SettingsError
from catchment.pipelines import Pipeline, Stage, store
from catchment.pipelines.history.backfill import backfill, rollback
from catchment.pipelines.history.changes import Changes
from catchment.spark.checkpoint.progress import SparkCheckpoint

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from catchment.pipelines.execution.run import Run
    from catchment.pipelines.execution.run_context import RunContext

STORES: Final = os.environ.get("CATCHMENT_LIVE_STORES", "sqlite").split(",")
DEADLINE_S: Final = 1200.0
HARBOUR: Final[Window] = ("harbour", 0)
HILLS: Final[Window] = ("hills", 0)


def count_twice(clean: DataFrame, crews: DataFrame) -> DataFrame:
    """The mistake."""
    from pyspark.sql import functions as F

    return count_reports(clean, crews).withColumn("count", F.col("count") * 2)


def test_a_repaired_stage_is_shown_whole_and_can_be_taken_back(city: City) -> None:
    city.send([Report(f"a{number}", number / 10) for number in range(200)], seconds=20)
    city.drain(city.pipeline(count_twice))
    city.send([Report(f"b{number}", 60 + number / 10) for number in range(100)], seconds=70)
    city.drain(city.pipeline(count_twice))
    # Spark looks at its new watermark with the next rows.
    city.send([Report("c", 75)], seconds=75)
    city.drain(city.pipeline(count_twice))
    wrong = {("harbour", 0): (200, None), ("harbour", 10): (200, None), ("harbour", 60): (200, None)}
    assert city.board() == wrong | {("harbour", 70): (2, None)}

    repaired = city.pipeline(version=2)
    (looked,) = backfill(city.context(repaired), "board", is_dry_run=True)
    assert looked.changes == Changes(same=0, changed=2, added=0, removed=0)
    assert city.board() == wrong | {("harbour", 70): (2, None)}

    # Events keep coming, and the old pipeline goes on, while the history is recomputed.
    city.send([Report("d", 76)], seconds=76)
    city.drain(city.pipeline(count_twice))
    (done,) = backfill(city.context(repaired), "board")
    assert (done.version, done.rows, done.is_shown) == (2, 2, True)
    right = {("harbour", 0): (100, None), ("harbour", 10): (100, None), ("harbour", 60): (100, None)}
    assert city.board() == right | {("harbour", 70): (2, None)}
    with pytest.raises(SettingsError, match="Set the pipeline's version to 3"):
        list(backfill(city.context(repaired), "board"))

    # The repaired pipeline goes on where the backfill has brought it.
    city.send([Report("e", 77)], seconds=77)
    city.drain(repaired, {"outlet-board": 2})
    assert city.board() == right | {("harbour", 70): (3, None)}

    assert list(rollback(city.context(repaired).graph, city.folder, "board")) == [("board", 1, 2)]
    assert city.board() == wrong | {("harbour", 70): (4, None)}
    city.send([Report("f", 78)], seconds=78)
    city.drain(repaired, {"outlet-board": 2})
    assert city.board() == wrong | {("harbour", 70): (4, None)}, "to run the file again does not undo that"


def test_a_stage_that_cannot_be_recomputed_is_reported(city: City) -> None:
    context = city.context(city.pipeline(version=2))
    with pytest.raises(SettingsError, match=r"clean is no stage with a function or SQL.*board"):
        list(backfill(context, "clean"))


def count_nowhere(clean: DataFrame, crews: DataFrame) -> DataFrame:
    """A mistake in the repair: what is in the hills has no district, by which the store would find it."""
    from pyspark.sql import functions as F

    return count_reports(clean, crews).withColumn("district", F.expr("nullif(district, 'hills')"))


def test_rows_that_a_store_can_never_take_are_left_out_of_the_history_and_told(city: City) -> None:
    for seconds in (0, 60, 75):
        city.send([Report(f"{seconds}-{one}", seconds, one) for one in ("harbour", "hills")], seconds=seconds)
        city.drain(city.pipeline())
    told: list[str] = []
    (done,) = backfill(city.context(city.pipeline(count_nowhere, version=2)), "board", report=told.append)
    assert (done.rows, done.changes) == (1, Changes(same=1, changed=0, added=0, removed=1))
    assert {district for district, _ in city.board()} == {"harbour"}
    reason = "column 'district' is NULL, and the table finds its rows by it"
    assert f"board: rows that the store cannot take are left out, 1 of them: {reason}" in told
    aside = city.rows(f"{city.name}.quarantine")
    assert {row["headers"]["catchment.sink"] for row in aside} == {b"board"}, "the speed layer has set its own aside"
    assert all("district" not in json.loads(row["value"]) for row in aside)


def divided(by: str) -> Callable[[DataFrame, DataFrame], DataFrame]:
    """The counts, with a division that not every row allows."""

    def count(clean: DataFrame, crews: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        return count_reports(clean, crews).withColumn("share", F.expr(f"100 / ({by})"))

    return count


def count_in_python(clean: DataFrame, crews: DataFrame) -> DataFrame:
    from pyspark.sql import functions as F

    number = F.udf(lambda district: int(district), "int")
    return count_reports(clean, crews).withColumn("crew", number("district"))


def count_what_is_not_there(clean: DataFrame, crews: DataFrame) -> DataFrame:
    return count_reports(clean, crews).withColumn("crew", clean["helpers"])


FAILING: Final = {
    r"helpers.*cannot be resolved": count_what_is_not_there,
    r"stage board over its history fails: Division by zero.*100 / \(count - 1\)": divided("count - 1"),
    r"stage board over its history fails: ValueError: invalid literal for int\(\).* \(test_lambda.py:\d+\)": count_in_python,
    r"stage board over new rows fails: Division by zero.*100 / \(IF\(": divided("IF(minute(start) >= 1, 0, 1)"),
}
"""By what is said of each stage; the last one fails for rows that are no history yet."""


def test_a_stage_that_fails_in_a_backfill_is_named_with_what_failed_in_it_and_readers_see_no_change(city: City) -> None:
    for seconds in (0, 60, 75):
        city.send([Report(f"{seconds}", seconds)], seconds=seconds)
        city.drain(city.pipeline())
    before = city.board()
    assert len(before) == 3
    for said, count in FAILING.items():
        with pytest.raises(ClientError, match=f"(?s){said}") as raised:
            list(backfill(city.context(city.pipeline(count, version=2)), "board"))
        # That decides the exit code.
        assert type(raised.value) is (SettingsError if count is count_what_is_not_there else ClientError)
        assert "Traceback" not in raised.value.message
        assert "\tat " not in raised.value.message
        assert city.board() == before


def count_below_zero(clean: DataFrame, crews: DataFrame) -> DataFrame:
    """Another mistake, which shows in every row."""
    from pyspark.sql import functions as F

    return count_reports(clean, crews).withColumn("count", -F.col("count"))


@pytest.fixture
def database() -> Iterator[str | None]:
    """An empty one of PostgreSQL, if it is wanted."""
    if "postgresql" not in STORES:
        yield None
        return
    with PostgresServer("-c", "fsync=off") as server:
        yield server.new_database()


@pytest.mark.timeout(1500)
def test_no_reader_sees_a_gap_a_double_count_or_a_mixture_while_events_keep_coming(
    city: City, database: str | None
) -> None:
    def declared(count: Callable[[DataFrame, DataFrame], DataFrame], version: int) -> Pipeline:
        made = city.pipeline(count, version=version)
        if database is not None:
            made.sink(Stage("board"), store(database, table="board"), name="other-board")
        return made

    sinks = ["outlet-board"] if database is None else ["outlet-board", "outlet-other-board"]
    wrong, repaired = declared(count_below_zero, 1), declared(count_reports, 2)
    with Sender(city) as sender:
        readers = [
            Reader(lambda: sqlite3.connect(city.folder / "city.db"), sqlite3.OperationalError, sender.sent),
        ]
        if database is not None:
            connect = partial(psycopg.connect, database, autocommit=True)
            readers.append(Reader(connect, psycopg.errors.UndefinedTable, sender.sent))
        with reading(readers):
            with running(in_a_session_of_its_own(city.context(wrong))) as old:
                wait(old, "windows are closed", lambda: all(has_closed_windows(city, one) for one in sinks))
                done = list(backfill(city.context(repaired), "board"))
                assert [(one.version, one.is_shown, one.rows > 0) for one in done] == [(2, True, True)] * len(sinks)
                wait(old, "the new version is seen", lambda: all(one.versions[-1:] == [1] for one in readers))
            count = max(len(one.seen) for one in readers)
            with running(city.context(repaired, dict.fromkeys(sinks, 2))) as new:
                wait(new, "new events are counted", lambda: all(len(one.seen) > count + 2 for one in readers))
                sender.stop()
                wait(new, "all events are counted", lambda: all(one.seen == dict(sender.sent) for one in readers))
        assert [(one.faults[:3], one.versions) for one in readers] == [([], [-1, 1])] * len(sinks)
        assert city.rows(f"{city.name}.late") == []


@pytest.mark.parametrize(
    ("rows", "fault"),
    [
        ([(HARBOUR, 5), (HILLS, 5)], None),
        ([(HARBOUR, -4), (HILLS, -4)], None),
        ([(HARBOUR, 4), (HILLS, 4), (HARBOUR, 4)], "('harbour', 0) is there twice"),
        ([(HARBOUR, 4), (HILLS, -4)], "two versions at once: [(('harbour', 0), 4), (('hills', 0), -4)]"),
        ([(HARBOUR, 4)], "('hills', 0) has gone"),
        ([(HARBOUR, 3), (HILLS, 4)], "('harbour', 0) went back from -4 to 3"),
        ([(HARBOUR, 4), (HILLS, 6)], "('hills', 0) counts 6 of 5"),
    ],
)
def test_what_no_reader_may_see_is_noticed(rows: Rows, fault: str | None) -> None:
    before = {HARBOUR: -4, HILLS: -4}
    assert faults(before, rows, Counter({HARBOUR: 5, HILLS: 5})) == ([fault] if fault else [])


def in_a_session_of_its_own(context: RunContext) -> RunContext:
    """As another process would have one: a session takes a query's name only once."""
    from pyspark.sql import SparkSession

    # A copy knows the formats, which cannot be registered for a second session.
    copied = context.spark._jsparkSession.cloneSession()
    return replace(context, spark=SparkSession(context.spark.sparkContext, copied))


def has_closed_windows(city: City, query: str) -> bool:
    """Whether a batch is done for which the first two windows were complete."""
    notes = SparkCheckpoint.at(str(city.home.checkpoint(query, 1)))
    newest = notes.newest_finished()
    return newest is not None and notes.plan(newest).watermark_ms >= at(20).timestamp() * 1000


@contextmanager
def running(context: RunContext) -> Iterator[Run]:
    """All queries, without an end."""
    from catchment.pipelines.execution.run import Run

    run = Run(context)
    run.build()
    run.start()
    try:
        yield run
    finally:
        run.stop()


def wait(run: Run, what: str, holds: Callable[[], bool]) -> None:
    """Until it holds, as long as all queries go on."""

    def looked() -> bool:
        for query in run.queries.values():
            assert query.isActive, query.exception()
        return holds()

    wait_for(what, looked, DEADLINE_S)
