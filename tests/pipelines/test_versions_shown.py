"""Which version of a table readers see when queries start from scratch, are rolled back and are recomputed."""

from __future__ import annotations

import json
import sqlite3
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.pipelines.city import City, Report, at, each_once, seconds_of
from typer.testing import CliRunner

from catchment.cli.app import app
from catchment.client.errors import ClientError
from catchment.pipelines import Pipeline, command_context, store, topic
from catchment.pipelines.history.backfill import backfill, rollback
from catchment.pipelines.history.changes import Changes
from catchment.pipelines.planning import Kept, Operator, Part, Refused, Signature, decide, keep
from catchment.pipelines.planning.signature import Made
from catchment.pipelines.stores.store_opening import open_store

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from catchment.pipelines.stores.store import Version


def live(city: City) -> Version:
    """What readers of the board see."""
    with open_store(f"sqlite:///{city.folder}/city.db", "board") as opened:
        return next(one for one in opened.versions() if one.is_live)


def counted(city: City, version: int, *, dedupe: str = "id", by: tuple[str, ...] = ("district",)) -> Pipeline:
    """Reports, each once by a key, counted every ten seconds into a store; no lake would get them twice."""
    made = Pipeline(city.name, version=version, parallelism=2)
    reports = made.source(
        topic(city.reports, schema="id string, district string, kind string, at timestamp"),
        name="reports",
        event_time="at",
        lateness="20 seconds",
    )
    clean = made.stage("clean", reports, dedupe=dedupe, to=topic(f"{city.name}.clean"))

    @made.stage(clean, mode="update", key=[*by, "start"])
    def board(clean: DataFrame) -> DataFrame:
        from pyspark.sql import functions as F

        counts = clean.groupBy(*by, F.window("at", "10 seconds").alias("w")).count()
        return counts.select(*by, "w.start", "w.end", "count")

    made.sink(board, store(f"sqlite:///{city.folder}/city.db", table="board"), name="board")
    return made


def counts(city: City) -> dict[int, int]:
    """The counts of the board by the beginning of their windows, in seconds."""
    with sqlite3.connect(city.folder / "city.db") as database:
        found = database.execute('SELECT start, sum("count") FROM board GROUP BY start').fetchall()
    return {seconds_of(start): count for start, count in found}


def test_a_version_whose_source_stage_starts_from_scratch_is_not_shown_before_it_has_read_all_events(
    city: City,
) -> None:
    from catchment.pipelines.execution.run import Run

    city.send([Report("a", 1)], seconds=1)
    city.drain_as_planned(each_once(city, 1, "id"))
    newer = each_once(city, 2, "district")
    plan = city.plan(newer)
    keep(city.home, plan)
    only_source_stage = Run(city.context(newer, plan.versions))
    only_source_stage.build(["clean"])
    only_source_stage.drain()
    city.send([Report("b", 2, "hills")], seconds=2)
    city.drain(each_once(city, 1, "id"))

    run = Run(city.context(newer, plan.versions))
    run.build()
    run.start_query("outlet-board", available_now=True).awaitTermination()
    assert live(city).version == 1, "all is read that the source stage has written, but it has not read all events yet"
    run.start_query("clean", available_now=True).awaitTermination()
    run.start_query("outlet-board", available_now=True).awaitTermination()
    run.stop()
    assert live(city).version == 2
    with sqlite3.connect(city.folder / "city.db") as database:
        assert sorted(database.execute("SELECT id FROM board").fetchall()) == [("a",), ("b",)]


@pytest.mark.timeout(1500)
def test_what_was_gone_back_from_is_shown_again_by_a_backfill_alone_and_by_that_only_when_its_input_is_there(
    city: City,
) -> None:
    city.send([Report(f"a{number}", number) for number in range(10)], seconds=10)
    city.drain_as_planned(counted(city, 1))
    city.send([Report("b", 60)], seconds=60)
    city.drain_as_planned(counted(city, 1))
    newer = counted(city, 2, dedupe="kind")
    versions = city.plan(newer).versions
    assert versions == {"clean": 2, "outlet-board": 2}
    with pytest.raises(
        ClientError, match=r"outlet-board starts from scratch with .*clean\.v2, and has not caught up"
    ) as refused:
        list(backfill(city.context(newer, versions), "board"))
    assert refused.value.advice == "Run the pipeline with this file until it has caught up, and then the backfill."
    assert (live(city).version, counts(city)) == (1, {0: 10, 60: 1})

    city.drain_as_planned(newer)
    assert (live(city).version, counts(city)) == (2, {0: 1})
    assert [one.version for one in rollback(city.context(newer).graph, city.folder, "board")] == [1]
    city.send([Report("c", 70, kind="flood")], seconds=70)
    city.drain_as_planned(newer)
    assert (live(city).version, counts(city)) == (1, {0: 10, 60: 1}), "a run of the same file does not undo that"
    city.send([Report("d", 71, kind="quake")], seconds=71)
    city.drain_as_planned(newer)

    (done,) = backfill(city.context(newer, versions), "board")
    assert done.is_shown
    assert (live(city).version, live(city).until) == (2, done.until)
    assert counts(city) == {0: 1, 70: 2}
    city.send([Report("e", 72, kind="storm")], seconds=72)
    city.drain_as_planned(newer)
    assert (live(city).until, counts(city)) == (done.until, {0: 1, 70: 3}), (
        "a run does not change what a backfill showed"
    )


@pytest.mark.timeout(1500)
def test_a_stage_with_another_key_is_recomputed(city: City) -> None:
    city.send([Report("a", 1), Report("b", 2, kind="flood"), Report("c", 3, "hills")], seconds=10)
    city.drain_as_planned(counted(city, 1))
    for seconds in (60, 61):
        city.send([Report(f"d{seconds}", seconds)], seconds=seconds)
        city.drain_as_planned(counted(city, 1))
    newer = counted(city, 2, by=("district", "kind"))
    context = city.context(newer, city.plan(newer).versions)
    (looked,) = backfill(context, "board", is_dry_run=True)
    assert looked.changes == Changes(same=0, changed=0, added=3, removed=2)
    with pytest.raises(ClientError, match="has no column kind, which is part of the key now"):
        list(backfill(context, "board", since=at(5)))

    (done,) = backfill(context, "board")
    assert (done.changes, done.is_shown) == (looked.changes, True)
    with sqlite3.connect(city.folder / "city.db") as database:
        found = database.execute('SELECT district, kind, "count" FROM board ORDER BY 3, 1, 2').fetchall()
    assert found == [("harbour", "fire", 1), ("harbour", "flood", 1), ("hills", "fire", 1), ("harbour", "fire", 2)]


FILE = """
pipeline: {name}
version: {version}
sources:
  reports: {{topic: {name}-reports, schema: "id string, at timestamp", event_time: at, lateness: 20 seconds}}
stages:
  board:
    from: reports
    mode: update
    key: start
    sql: SELECT w.start, w.end, n * {times} AS count FROM (SELECT window(at, '10 seconds') w, count(*) n FROM reports GROUP BY 1)
sinks:
  - {{from: board, store: "sqlite:///city.db", table: board, name: board}}
"""


def drain_file(city: City, file: Path) -> None:
    """As a run of the file does that is to end."""
    from catchment.pipelines.execution.run import Run, run_context

    graph, folder = command_context.read_graph(file)
    plan = decide(city.spark, graph, city.home, folder)
    keep(city.home, plan)
    run = Run(
        run_context(city.spark, graph, home=city.home, folder=folder, servers=city.servers, versions=plan.versions)
    )
    run.build()
    run.drain()


@pytest.mark.timeout(1500)
def test_the_command_says_what_changes_and_the_next_run_goes_on_with_what_it_has_shown(
    city: City, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(command_context, "pipeline_session", lambda *_: nullcontext(city.spark))
    wrong, repaired = city.folder / "wrong.yaml", city.folder / "repaired.yaml"
    wrong.write_text(FILE.format(name=city.name, version=1, times=2))
    repaired.write_text(FILE.format(name=city.name, version=2, times=1))
    for seconds in (1, 60, 61):
        city.send([Report(f"a{seconds}", seconds)], seconds=seconds)
        drain_file(city, wrong)
    assert counts(city) == {0: 2, 60: 4}
    arguments = ["--home", str(city.home.root), "--bootstrap-server", city.servers, "--json"]

    result = CliRunner().invoke(app, ["pipeline", "backfill", str(repaired), "board", *arguments])

    assert result.exit_code == 0, result.output
    (said,) = json.loads(result.stdout)
    assert (said["version"], said["rows"], said["changed"], said["shown"]) == (2, 1, 1, True)
    city.send([Report("b", 62)], seconds=62)
    drain_file(city, repaired)
    assert counts(city) == {0: 1, 60: 3}


def test_a_file_whose_state_a_run_would_refuse_is_not_recomputed_either(
    city: City, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = city.folder / "city.yaml"
    file.write_text(
        f"pipeline: {city.name}\n"
        "sources:\n"
        '  reports: {topic: reports, schema: "id string, at timestamp", event_time: at, lateness: 20 seconds}\n'
        "stages:\n"
        "  clean: {from: reports, dedupe: id}\n"
    )
    key = Operator(kind="deduplication within the watermark", parts=(Part(name="key number", what="int"),))
    signature = Signature(kind="intake", reads=("reports",), state=(key,), event_time="at", lateness_ms=20_000)
    made = Made(checkpoint_version=1, pipeline_version=1, signature=signature)
    city.home.checkpoint("clean", 1).mkdir(parents=True)
    (city.home.checkpoint("clean", 1) / "metadata").write_text("{}")
    city.home.plan_file.write_text(Kept(pipeline=city.name, queries={"clean": (made,)}).model_dump_json())
    monkeypatch.setattr(command_context, "pipeline_session", lambda *_: nullcontext(city.spark))
    with (
        pytest.raises(Refused, match="key number"),
        command_context.opened(file, city.home.root, city.servers, "local[1]"),
    ):
        pass
