"""Runs of one pipeline from several homes, on Spark: every row is there once, whichever of them goes on."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession
from tests.pipelines.city import City, Report, each_once
from tests.pipelines.owned_town import EVENTS, Town
from typer.testing import CliRunner

from catchment.cli.app import app
from catchment.pipelines.checks.owners import check_owners, require_owner
from catchment.pipelines.declaration.loading import load
from catchment.pipelines.declaration.pipeline import Pipeline
from catchment.pipelines.driving import driven_run
from catchment.pipelines.driving.driven_run import DrivenRun
from catchment.pipelines.driving.driver_options import DriverOptions
from catchment.pipelines.execution.run import Run
from catchment.pipelines.graph import Graph
from catchment.pipelines.history.resetting import Resetting
from catchment.pipelines.home import Home
from catchment.pipelines.ownership.owner import NotOwned
from catchment.pipelines.planning import decide, keep
from catchment.pipelines.stores.store_opening import open_store
from catchment.spark.checkpoint.progress import SparkCheckpoint

if TYPE_CHECKING:
    from tests.client.logs import Logs


def drain(city: City, home: Home, pipeline: Pipeline) -> dict[str, int]:
    """What a run in a home does; the version of each query."""
    graph = Graph(pipeline.check())
    begins = require_owner(graph, city.folder, home, city.servers).begins
    plan = decide(city.spark, graph, home, city.folder, begins)
    run = Run(replace(city.context(pipeline, plan.versions), home=home))
    run.build()
    keep(home, plan)
    run.drain()
    return plan.versions


def test_every_row_is_there_once_whichever_home_goes_on(city: City) -> None:
    pipeline = city.pipeline()
    graph = Graph(pipeline.check())
    city.send([Report("a", 1), Report("b", 2)], 15)
    drain(city, city.home, pipeline)
    first_id = SparkCheckpoint.at(str(city.home.checkpoint("clean", 1))).query_id()

    other = Home(city.folder / "elsewhere", city.name)
    with pytest.raises(NotOwned) as refused:
        Run(replace(city.context(pipeline), home=other)).build()
    assert set(refused.value.objections) == {"clean"}, "the claim itself refuses, though nothing looked before"
    assert set(check_owners(graph, city.folder, other, city.servers).objections) >= {"outlet-board", "outlet-lake"}

    copy = Home(city.folder / "copy", city.name)
    shutil.copytree(city.home.root, copy.root)
    city.send([Report("c", 3)], 16)
    drain(city, copy, pipeline)
    assert SparkCheckpoint.at(str(copy.checkpoint("clean", 1))).query_id() == first_id, (
        "Spark took the id that it found"
    )
    with pytest.raises(NotOwned, match="another copy of this checkpoint"):
        Run(city.context(pipeline)).build()
    assert city.lake_ids() == ["a", "b", "c"]
    assert city.board() == {("harbour", 0): (3, None)}
    assert sorted(one["id"] for one in city.values(f"{city.name}.clean")) == ["a", "b", "c"]

    with closing(Resetting(graph, city.folder, copy, city.servers)) as resetting:
        resetting.delete(resetting.found())
    shutil.rmtree(other.root)
    drain(city, other, pipeline)
    assert city.lake_ids() == ["a", "b", "c"]
    assert city.board() == {("harbour", 0): (3, None)}
    assert sorted(one["id"] for one in city.values(f"{city.name}.clean")) == ["a", "b", "c"]


def test_a_new_version_in_another_home_writes_beside_the_old_one(city: City) -> None:
    city.send([Report("a", 1), Report("b", 2)], 15)
    drain(city, city.home, each_once(city, 1, "id"))
    elsewhere = Home(city.folder / "elsewhere", city.name)
    newer = each_once(city, 2, "id")
    assert drain(city, elsewhere, newer) == {"clean": 2, "outlet-board": 2}
    assert drain(city, elsewhere, newer) == {"clean": 2, "outlet-board": 2}, "and goes on with it"
    for topic in (f"{city.name}.clean", f"{city.name}.clean.v2"):
        assert sorted(one["id"] for one in city.values(topic)) == ["a", "b"]
    with open_store(f"sqlite:///{city.folder}/city.db", "board") as store:
        assert [(one.version, one.is_live) for one in store.versions()] == [(1, False), (2, True)]
        assert sorted(store.read().column("id").to_pylist()) == ["a", "b"]


@contextmanager
def shared_session(spark: SparkSession) -> Iterator[None]:
    """Commands that would start a Spark of their own, and stop it, use that of the tests."""
    session = "pipeline_session"
    with (
        patch(f"catchment.pipelines.execution.session.{session}", return_value=spark),
        patch("catchment.pipelines.execution.session.plan_session", return_value=spark),
        patch(f"catchment.pipelines.command_context.{session}", return_value=spark),
        patch.object(driven_run, session, return_value=spark),
        patch.object(SparkSession, "stop"),
        patch.object(driven_run, "end_jvm"),
        patch.object(DrivenRun, "_end_by_force"),
        patch.object(driven_run, "_silence_stderr"),
        patch.object(driven_run, "stop_publishing"),
    ):
        yield


def test_a_changed_schema_is_refused_by_every_command(
    spark: SparkSession, catchment_logs: Logs, tmp_path: Path
) -> None:
    town = Town(catchment_logs.bootstrap_servers, tmp_path)
    context = replace(town.context(), spark=spark)
    keep(town.home, decide(spark, context.graph, town.home, town.folder))
    Run(context).build()
    town.write_file(schema=EVENTS.replace("id string", "id int"))
    assert not check_owners(Graph(load(town.file).specification), town.folder, town.home, town.servers).objections
    options = ["--home", str(town.home.root), "--bootstrap-server", town.servers]
    with shared_session(spark):
        for verb in (["plan", str(town.file)], ["backfill", str(town.file), "board"]):
            result = CliRunner().invoke(app, ["pipeline", *verb, *options])
            assert result.exit_code == 3, (verb, result.output, result.exception)
            assert "key id was string and is int" in result.output
        for is_endless in (True, False):
            driven = DriverOptions(town.file, town.home.root, "local[1]", town.servers, is_endless=is_endless)
            assert DrivenRun(driven).drive() == 3
